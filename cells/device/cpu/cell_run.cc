#include "cells/device/cpu/cell_run.h"

#include <algorithm>
#include <atomic>

#include "cells/device/cpu/plain_step.h"
#include "cells/device/cpu/step_costs.h"
#include "cells/kernels/cpu/flush_denormals.h"

namespace cellbatch {
namespace {

using kernels::RowColumn;
using kernels::RowSource;

// Rows that go through several steps together: as many as a tail takes at a time.
constexpr int32_t kRowsTogether = kernels::kTailRowsAtOnce;

int64_t ScratchStride(const CellProgram& program) {
  const int64_t width = program.scratch_width;
  return width == 0 ? 0 : kernels::PaddedStride(width);
}

bool RoundsInputs(Precision precision) {
  return precision == Precision::kBf16 || precision == Precision::kFp32Split;
}

// Multiply-adds in the time of one of fp32, about. (Where split fp32 is computed at all, it takes three of bf16.)
int64_t RateOf(Precision precision, const kernels::CpuKernels& kernels) {
  if (precision == Precision::kBf16) return kernels.bf16_rate;
  return precision == Precision::kFp32Split ? std::max(1, kernels.bf16_rate / 3) : 1;
}

// How a number lies that was rounded: half a float, or what takes a whole one.
enum class RoundedTo : uint8_t { kHalfAFloat, kAFloat };

RoundedTo RoundedBy(const kernels::CpuKernels& kernels, Precision precision) {
  const bool pairs = precision == Precision::kBf16 && kernels.bf16_in_pairs;
  return pairs ? RoundedTo::kHalfAFloat : RoundedTo::kAFloat;
}

// What a product in bf16 reads of one row: its segments, rounded, one behind the other. Each begins with a line, and rows are an
// odd number of lines apart, so that those which are read together lie in as many sets of a cache as there are.
int64_t RoundedWidth(const SegmentPlan& segment, RoundedTo to) {
  const int64_t pairs = (int64_t{segment.depth} + 1) / 2;
  const int64_t floats = to == RoundedTo::kHalfAFloat ? pairs : 2 * pairs;
  return (floats + kernels::kLanes - 1) / kernels::kLanes * kernels::kLanes;
}
int64_t RoundedStride(const CellProgram& program, RoundedTo to) {
  int64_t most = 0;
  for (const Step& step : program.steps) {
    const auto* const product = std::get_if<ProductStep>(&step);
    if (product == nullptr || !RoundsInputs(program.precision)) continue;
    int64_t width = 0;
    for (const SegmentPlan& s : product->segments) width += RoundedWidth(s, to);
    most = std::max(most, width);
  }
  return most == 0 ? 0 : (most / kernels::kLanes | 1) * kernels::kLanes;
}

// Floats of scratch that a node takes.
int64_t NodeFloats(const CellProgram& program) {
  return ScratchStride(program) + RoundedStride(program, RoundedTo::kAFloat);
}

// Nodes of a chunk, by the floats of scratch that each takes.
int32_t ChunkNodes(int64_t stride) {
  if (stride == 0) return kChunkNodes;
  return static_cast<int32_t>(std::clamp<int64_t>(kChunkFloats / stride, 1, kChunkNodes));
}

// Whether a step computes each row from that row alone and reads no weights: a product of nothing is only its tail.
bool IsByRow(const PackedStep& step) {
  const auto* const product = std::get_if<PackedProductStep>(&step);
  if (product == nullptr) return std::holds_alternative<PlainStep>(step);
  return product->product->groups() == 0 && !product->plan->arg_max.has_value();
}

// For ProductArgs::run, of all devices: no scratch meets a number twice.
uint64_t NextRun() {
  static std::atomic<uint64_t> runs{0};
  return runs.fetch_add(1, std::memory_order_relaxed) + 1;
}

// One chunk of one task.
class ChunkRun {
 public:
  ChunkRun(const PackedCell& cell, const CellColumns& columns, const NodeLists& nodes,
           CellScratch& scratch, const Cores& cores, int32_t first, int32_t count)
      : cell_(cell),
        columns_(columns),
        nodes_(nodes),
        scratch_(scratch),
        cores_(cores),
        stride_(ScratchStride(cell.program())),
        first_(first),
        count_(count) {}

  void operator()(const SumStep& step) const;
  void operator()(const IndexStep& step) const;
  void operator()(const PackedProductStep& step) const;
  void operator()(const PlainStep& step) const;
  void operator()(const FoldedCell& folded) const;
  // Steps that are IsByRow.
  void RunByRow(const PackedStep* begin, const PackedStep* end) const;

 private:
  RowSource Source(const Place& place) const;
  RowColumn Column(const Place& place) const;
  void RoundInputs(const ProductStep& plan, RowSource* inputs, size_t skipped) const;
  bool ReadsZeros(const Place& place) const;
  void RunPanels(const kernels::PackedProduct& product, const kernels::ProductArgs& args,
                 int64_t cost, bool largest) const;
  void StartLargest() const;
  void StoreLargest(const Place& place) const;
  void RunRows(const PlainStep& step, int32_t first, int32_t rows) const;
  void RunRows(const PackedProductStep& step, int32_t first, int32_t rows, int thread) const;
  template <typename Work>
  void SplitRows(int64_t cost_a_row, const Work& work) const;

  const PackedCell& cell_;
  const CellColumns& columns_;
  const NodeLists& nodes_;
  CellScratch& scratch_;
  const Cores& cores_;
  const int64_t stride_;  // of scratch rows
  const int32_t first_, count_;
};

RowSource ChunkRun::Source(const Place& place) const {
  RowSource s;
  switch (place.kind) {
    case PlaceKind::kInput: {
      const auto input = static_cast<size_t>(place.index);
      const ColumnArray& c = columns_.inputs[input][static_cast<size_t>(place.column)];
      s.base = c.base + place.offset;
      s.stride = c.stride;
      s.rows = nodes_.inputs[input].rows + first_;
      break;
    }
    case PlaceKind::kOutput: {
      const ColumnArray& c = columns_.outputs[static_cast<size_t>(place.index)];
      s.base = c.base + place.offset;
      s.stride = c.stride;
      s.rows = nodes_.output_rows + first_;
      break;
    }
    case PlaceKind::kScratch:
      s.base = scratch_.values() + place.offset;
      s.stride = stride_;
      break;
    case PlaceKind::kTableRow: {
      const LookupSpec& l = cell_.program().lookups[static_cast<size_t>(place.index)];
      s.base = cell_.Parameter(l.table) + l.offset + place.offset;
      s.stride = l.stride;
      s.rows = scratch_.indices(place.index);
      break;
    }
    case PlaceKind::kParameter:
      s.base = cell_.Parameter(ParameterId(place.index)) + place.offset;
      s.stride = 0;
      break;
  }
  return s;
}

RowColumn ChunkRun::Column(const Place& place) const {
  const RowSource s = Source(place);
  return {const_cast<float*>(s.base), s.stride, s.rows};  // tails store to outputs and scratch only
}

// Whether all nodes read row 0 there. One look, unless the first of them does.
bool ChunkRun::ReadsZeros(const Place& place) const {
  if (!columns_.zero_row || place.kind != PlaceKind::kInput) return false;
  const Row* const rows = nodes_.inputs[place.index].rows + first_;
  return std::all_of(rows, rows + count_, [](Row row) { return row == kZeroRow; });
}

template <typename Work>
void ChunkRun::SplitRows(int64_t cost_a_row, const Work& work) const {
  const int64_t cost = cost_a_row * count_;
  const StepSplit split = SplitByRows(cost, count_, cores_.team->threads(), cores_.costs);
  cores_.team->Run(split.blocks(), IsWorthWaking(cost, cores_.costs), [&](int block, int thread) {
    const Part rows = split.RowsOf(block, count_);
    work(rows.begin, rows.size(), thread);
  });
}

void ChunkRun::operator()(const SumStep& step) const {
  const auto input = static_cast<size_t>(step.input.value());
  const ColumnArray& c = columns_.inputs[input][static_cast<size_t>(step.column)];
  const int32_t* const offsets = nodes_.inputs[input].offsets + first_;
  const RowSource in = {c.base, c.stride, nodes_.inputs[input].rows, nullptr, 1};
  const RowColumn out = Column(step.to);
  const int64_t links = int64_t{offsets[count_]} - offsets[0];
  SplitRows(step.width * (kCopyCost + kAddCost * (links / count_)),
            [&](int32_t begin, int32_t rows, int) {
              cell_.kernels().sum_rows(in, offsets + begin, step.width, rows, RowsFrom(out, begin));
            });
}

void ChunkRun::operator()(const IndexStep& step) const {
  const LookupSpec& l = cell_.program().lookups[static_cast<size_t>(step.lookup)];
  const RowSource tokens = Source(l.token);
  int32_t* const indices = scratch_.indices(step.lookup);
  for (int32_t r = 0; r < count_; ++r) {
    const int32_t token = *reinterpret_cast<const int32_t*>(tokens.Row(r));
    indices[r] = std::clamp(token, 0, l.rows - 1);
  }
}

// Rows that a product in bf16, or in split fp32, reads: rounded once for all panels and threads.
void ChunkRun::RoundInputs(const ProductStep& plan, RowSource* inputs, size_t skipped) const {
  const Precision precision = cell_.program().precision;
  const auto round =
      precision == Precision::kBf16 ? cell_.kernels().round_to_bf16 : cell_.kernels().split_to_bf16;
  RowSource rounded[kernels::kMaxSegments];
  const RoundedTo form = RoundedBy(cell_.kernels(), precision);
  const int64_t stride = RoundedStride(cell_.program(), form);
  int64_t numbers = 0, floats = 0;  // of a row
  for (size_t s = skipped; s < plan.segments.size(); ++s) {
    if (inputs[s - skipped].base == nullptr) continue;  // zeros
    rounded[s - skipped] = {scratch_.rounded() + floats, stride};
    floats += RoundedWidth(plan.segments[s], form);
    numbers += plan.segments[s].depth;
  }
  SplitRows(RoundingCost(precision) * numbers, [&](int32_t begin, int32_t rows, int) {
    for (size_t s = skipped; s < plan.segments.size(); ++s) {
      const RowSource& in = inputs[s - skipped];
      if (in.base == nullptr) continue;
      const RowSource& to = rounded[s - skipped];
      const RowColumn out = {const_cast<float*>(to.base), to.stride};
      round(RowsFrom(in, begin), plan.segments[s].depth, rows, RowsFrom(out, begin));
    }
  });
  std::copy_n(rounded, plan.segments.size() - skipped, inputs);
}

void ChunkRun::operator()(const PackedProductStep& step) const {
  const ProductStep& plan = *step.plan;
  const kernels::PackedProduct& product = *step.product;
  RowSource inputs[kernels::kMaxSegments], initial, starts[kernels::kMaxGroups];
  RowColumn columns[kernels::kMaxTailColumns];
  const auto skipped = static_cast<size_t>(step.first_segment);
  int64_t multiply_adds = product.multiply_adds();
  for (size_t s = skipped; s < plan.segments.size(); ++s) {
    if (ReadsZeros(plan.segments[s].source)) {
      multiply_adds -= product.multiply_adds(static_cast<int>(s - skipped));
    } else {
      inputs[s - skipped] = Source(plan.segments[s].source);
    }
  }
  if (RoundsInputs(product.precision())) RoundInputs(plan, inputs, skipped);
  for (size_t c = 0; c < plan.columns.size(); ++c) columns[c] = Column(plan.columns[c]);
  kernels::ProductArgs args = {count_, inputs, nullptr, columns};
  if (step.folded.has_value()) {
    initial = {step.folded->rows.data(), step.folded->stride, scratch_.indices(step.folded->lookup),
               nullptr, 1};
    args.initial = &initial;
  }
  for (size_t g = 0; g < plan.starts.size(); ++g) {
    if (plan.starts[g].has_value()) starts[g] = Source(*plan.starts[g]);
    args.starts = starts;
  }
  if (plan.arg_max.has_value()) StartLargest();
  const int64_t rate = RateOf(product.precision(), cell_.kernels());
  const int64_t work = (multiply_adds / rate + TailCost(plan.tail) * plan.units) * count_;
  const int64_t bytes = multiply_adds * kernels::PackedProduct::StoredBytes(product.precision());
  RunPanels(product, args, std::max(work, bytes), plan.arg_max.has_value());
  if (plan.arg_max.has_value()) StoreLargest(*plan.arg_max);
}

// What a product reads and writes of some of its rows. Its args() point into it.
class ArgsFrom {
 public:
  ArgsFrom(const kernels::PackedProduct& product, const kernels::ProductArgs& args, Part rows)
      : args_(args) {
    args_.num_rows = rows.size();
    const auto from = [&rows](auto source) { return RowsFrom(source, rows.begin); };
    if (args.inputs != nullptr) {
      std::transform(args.inputs, args.inputs + product.segments().size(), inputs_, [&](auto in) {
        return in.base != nullptr ? from(in) : in;  // zeros
      });
      args_.inputs = inputs_;
    }
    if (args.initial != nullptr) {
      initial_ = from(*args.initial);
      args_.initial = &initial_;
    }
    if (args.starts != nullptr) {
      std::transform(args.starts, args.starts + product.groups(), starts_,
                     [&](auto in) { return in.base != nullptr ? from(in) : in; });
      args_.starts = starts_;
    }
    std::transform(args.columns, args.columns + product.tail().num_columns, columns_, from);
    args_.columns = columns_;
  }

  const kernels::ProductArgs& args() const { return args_; }

 private:
  kernels::ProductArgs args_;
  RowSource inputs_[kernels::kMaxSegments], initial_, starts_[kernels::kMaxGroups];
  RowColumn columns_[kernels::kMaxTailColumns];
};

void ChunkRun::RunPanels(const kernels::PackedProduct& product, const kernels::ProductArgs& args,
                         int64_t cost, bool largest) const {
  const int panels = product.num_panels();
  const StepSplit split = SplitProduct(cost, panels, count_, cores_.team->threads(), cores_.costs);
  // (Blocks of panels are run one after the other, each by all rows.)
  const int passes = split.panels > 1 ? 1 : kernels::PassesOf(count_);
  const bool from_last = scratch_.WalkOf(product).FromLast(passes);
  const uint64_t number = split.panels > 1 && split.rows == 1 ? NextRun() : 0;
  const auto run_block = [&](int block, int thread) {
    const Part columns = split.PanelsOf(block, panels), rows = split.RowsOf(block, count_);
    kernels::ProductScratch* const scratch = &(*cores_.scratch)[static_cast<size_t>(thread)];
    const auto run = [&](kernels::ProductArgs mine) {
      if (largest) mine.largest = scratch->largest() + rows.begin;
      mine.from_last = from_last;
      mine.run = number;
      mine.panels_of_run = panels / cores_.team->threads();
      cell_.kernels().run_product(product, mine, columns.begin, columns.end, scratch);
    };
    if (split.rows == 1) {
      run(args);
    } else {
      run(ArgsFrom(product, args, rows).args());
    }
  };
  cores_.team->Run(split.blocks(), IsWorthWaking(cost, cores_.costs), run_block,
                   from_last ? CoreTeam::From::kLast : CoreTeam::From::kFirst);
}

// Each thread keeps the largest of the panels that it took. Which those were does not matter: of equals the lowest unit
// is taken, whoever found it.
void ChunkRun::StartLargest() const {
  for (kernels::ProductScratch& s : *cores_.scratch) {
    std::fill_n(s.largest(), count_, kernels::Largest());
  }
}

void ChunkRun::StoreLargest(const Place& place) const {
  const RowColumn out = Column(place);
  for (int32_t r = 0; r < count_; ++r) {
    kernels::Largest largest;
    for (kernels::ProductScratch& s : *cores_.scratch) largest.Take(s.largest()[r]);
    *reinterpret_cast<int32_t*>(out.Row(r)) = std::max(largest.unit, 0);  // all NaN: 0
  }
}

void ChunkRun::operator()(const PlainStep& step) const {
  SplitRows(PlainStepCost(step),
            [&](int32_t begin, int32_t rows, int) { RunRows(step, begin, rows); });
}

void ChunkRun::RunRows(const PlainStep& step, int32_t first, int32_t rows) const {
  RowSource args[3];
  for (size_t a = 0; a < step.args.size(); ++a) args[a] = RowsFrom(Source(step.args[a]), first);
  RunPlainStep(step, cell_.kernels(), args, rows, RowsFrom(Column(step.to), first));
}

void ChunkRun::RunRows(const PackedProductStep& step, int32_t first, int32_t rows,
                       int thread) const {
  const std::vector<Place>& places = step.plan->columns;
  RowColumn columns[kernels::kMaxTailColumns];
  for (size_t c = 0; c < places.size(); ++c) columns[c] = RowsFrom(Column(places[c]), first);
  cell_.kernels().run_product(*step.product, {rows, nullptr, nullptr, columns}, 0,
                              step.product->num_panels(),
                              &(*cores_.scratch)[static_cast<size_t>(thread)]);
}

void ChunkRun::RunByRow(const PackedStep* begin, const PackedStep* end) const {
  int64_t cost = 0;
  for (const PackedStep* step = begin; step != end; ++step) {
    const auto* const plain = std::get_if<PlainStep>(step);
    if (plain != nullptr) {
      cost += PlainStepCost(*plain);
    } else {
      const ProductStep& plan = *std::get<PackedProductStep>(*step).plan;
      cost += TailCost(plan.tail) * plan.units;
    }
  }
  SplitRows(cost, [&](int32_t first, int32_t rows, int thread) {
    for (int32_t r = 0; r < rows; r += kRowsTogether) {
      const int32_t some = std::min(kRowsTogether, rows - r);
      for (const PackedStep* step = begin; step != end; ++step) {
        if (const auto* const plain = std::get_if<PlainStep>(step)) {
          RunRows(*plain, first + r, some);
        } else {
          RunRows(std::get<PackedProductStep>(*step), first + r, some, thread);
        }
      }
    }
  });
}

void ChunkRun::operator()(const FoldedCell& folded) const {
  for (size_t c = 0; c < folded.columns.size(); ++c) {
    const ColumnArray& to = columns_.outputs[c];
    const RowColumn out = {to.base, to.stride, nodes_.output_rows + first_};
    // A table of this column alone, whatever beside it lies in the rows that are left.
    const int64_t stride = ColumnStride(cell_.type().definition->columns()[c]);
    const RowSource in = {folded.columns[c].data(), stride, scratch_.indices(folded.lookup)};
    SplitRows(kCopyCost * to.width, [&](int32_t begin, int32_t rows, int) {
      cell_.kernels().copy_rows(RowsFrom(in, begin), to.width, rows, RowsFrom(out, begin));
    });
  }
}

}  // namespace

namespace {

// In elements of 4 bytes.
struct ScratchSize {
  int64_t values = 0, rounded = 0, indices = 0;
};

ScratchSize SizeFor(const std::vector<const CellProgram*>& programs) {
  ScratchSize size;
  for (const CellProgram* program : programs) {
    const int64_t nodes = ChunkNodes(NodeFloats(*program));
    const auto lookups = static_cast<int64_t>(program->lookups.size());
    size.values = std::max(size.values, ScratchStride(*program) * nodes);
    size.rounded = std::max(size.rounded, RoundedStride(*program, RoundedTo::kAFloat) * nodes);
    size.indices = std::max(size.indices, lookups * kChunkNodes);
  }
  return size;
}

}  // namespace

int64_t ColumnStride(const Column& column) {
  return column.type == ElementType::kInt32 ? column.width : kernels::PaddedStride(column.width);
}

CellScratch::CellScratch(const std::vector<const CellProgram*>& programs)
    : values_(SizeFor(programs).values),
      rounded_(SizeFor(programs).rounded),
      indices_(static_cast<size_t>(SizeFor(programs).indices)) {}

int64_t CellScratch::BytesFor(const std::vector<const CellProgram*>& programs) {
  const ScratchSize size = SizeFor(programs);
  return (size.values + size.rounded + size.indices) * 4;
}

int64_t CellScratch::bytes() const {
  return (values_.size() + rounded_.size() + static_cast<int64_t>(indices_.size())) * 4;
}

kernels::PanelWalk& CellScratch::WalkOf(const kernels::PackedProduct& product) {
  for (Walk& w : walks_) {
    if (w.of == &product) return w.walk;
  }
  Walk& w = walks_[oldest_walk_++ % kWalks];
  w = {&product, {}};
  return w.walk;
}

void RunCell(const PackedCell& cell, const CellColumns& columns, const NodeLists& nodes,
             CellScratch& scratch, const Cores& cores) {
  const kernels::FlushDenormals flush;
  const int32_t most = ChunkNodes(NodeFloats(cell.program()));
  const int32_t chunks = (nodes.num_nodes + most - 1) / most;
  for (int32_t i = 0; i < chunks; ++i) {
    const auto first = static_cast<int32_t>(int64_t{nodes.num_nodes} * i / chunks);
    const auto end = static_cast<int32_t>(int64_t{nodes.num_nodes} * (i + 1) / chunks);
    const ChunkRun run(cell, columns, nodes, scratch, cores, first, end - first);
    const PackedStep* const last = cell.steps().data() + cell.steps().size();
    for (const PackedStep* step = cell.steps().data(); step != last;) {
      const PackedStep* const other = std::find_if_not(step, last, IsByRow);
      if (other - step > 1) {
        run.RunByRow(step, other);
        step = other;
      } else {
        std::visit(run, *step++);
      }
    }
  }
}

}  // namespace cellbatch
