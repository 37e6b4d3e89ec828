#include "cells/device/cpu/packed_cell.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "cells/check.h"
#include "cells/device/cpu/cell_run.h"
#include "cells/device/cpu/cpu_limits.h"
#include "cells/device/held_weights.h"
#include "cells/kernels/cpu/flush_denormals.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

// What Pack reads, and what the pointers in it point to.
struct SpecAndStorage {
  kernels::ProductSpec spec;
  std::vector<std::vector<float>> storage;
};

bool IsIn(const std::vector<int>& steps, size_t step) {
  return std::find(steps.begin(), steps.end(), static_cast<int>(step)) != steps.end();
}

int64_t FoldedFloats(const CellProgram& program, const ProductStep& plan) {
  const auto lookup = static_cast<size_t>(plan.segments[0].source.index);
  return FoldedRowFloats(plan) * program.lookups[lookup].rows;
}

// On the calling thread, with scratch of its own.
void RunAlone(const PackedCell& cell, const CellColumns& columns, const NodeLists& nodes) {
  CoreTeam team(1, {}, {});
  std::vector<kernels::ProductScratch> product_scratch(1);
  CellScratch scratch({&cell.program()});
  RunCell(cell, columns, nodes, scratch, {&team, &product_scratch});
}

int64_t GroupsOf(const SegmentPlan& segment) {
  return std::count_if(segment.weights.begin(), segment.weights.end(),
                       [](const auto& w) { return w.has_value(); });
}

}  // namespace

int64_t FoldedRowFloats(const ProductStep& step) {
  const int64_t blocks = (step.units + kernels::kLanes - 1) / kernels::kLanes;
  return kernels::PaddedStride(blocks * step.groups() * kernels::kLanes);
}

int64_t FoldedRowFloats(const CellDefinition& cell) {
  int64_t floats = 0;
  for (const Column& column : cell.columns()) floats += ColumnStride(column);
  return floats;
}

CellProgram ProgramOfFolded(const CellProgram& program) {
  const std::optional<int32_t> lookup = LookupOfWhole(program);
  Check(lookup.has_value(), "a cell that depends on one token");
  return {{IndexStep{*lookup}}, program.lookups, 0};
}

int64_t PackedBytes(const CellDefinition& cell, const CellProgram& program,
                    const CellFolds& folds) {
  int64_t floats = 0, stored = 0;
  if (folds.whole) {
    const LookupSpec& lookup = program.lookups[static_cast<size_t>(*LookupOfWhole(program))];
    return FoldedRowFloats(cell) * lookup.rows * static_cast<int64_t>(sizeof(float));
  }
  for (const PreparedParameter& p : program.prepared) floats += p.width;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const auto* const plan = std::get_if<ProductStep>(&program.steps[s]);
    if (plan == nullptr) continue;
    const bool fold = IsIn(folds.steps, s);
    if (fold) floats += FoldedFloats(program, *plan);
    const int64_t blocks = (plan->units + kernels::kLanes - 1) / kernels::kLanes;
    for (size_t i = fold ? 1 : 0; i < plan->segments.size(); ++i) {
      const SegmentPlan& segment = plan->segments[i];
      stored += kernels::PackedProduct::StoredDepth(program.precision, segment.depth) *
                GroupsOf(segment) * blocks * kernels::kLanes;
    }
  }
  return floats * static_cast<int64_t>(sizeof(float)) +
         stored * kernels::PackedProduct::StoredBytes(program.precision);
}

int64_t BytesOf(const PreparedParameter& prepared) {
  return prepared.width * static_cast<int64_t>(sizeof(float));
}

int64_t PreparingBytes(const CellDefinition& cell, const CellProgram& program) {
  if (program.at_load == nullptr) return 0;
  return PackedBytes(cell, *program.at_load, {}) + CellScratch::BytesFor({program.at_load.get()});
}

PackedCell::PackedCell(const CellType& type, CellProgram program,
                       const kernels::CpuKernels& kernels, Prepared prepared)
    : type_(&type),
      program_(std::make_unique<const CellProgram>(std::move(program))),
      kernels_(&kernels),
      prepared_(std::move(prepared)) {
  PackSteps({});
}

PackedCell::PackedCell(const CellType& type, CellProgram program, const CellFolds& folds,
                       const kernels::CpuKernels& kernels)
    : type_(&type),
      program_(std::make_unique<const CellProgram>(std::move(program))),
      kernels_(&kernels) {
  const kernels::FlushDenormals
      flush;  // what is computed here has the bits of what is computed at run time
  if (program_->at_load != nullptr) prepared_ = Prepare(*program_);
  for (const PreparedParameter& p : program_->prepared) bytes_ += BytesOf(p);
  PackSteps(folds);
  if (!folds.whole) return;
  FoldedCell rows = FoldWhole();
  program_ = std::make_unique<const CellProgram>(ProgramOfFolded(*program_));
  prepared_ = nullptr;
  steps_.clear();
  steps_.push_back(IndexStep{rows.lookup});
  bytes_ = 0;
  for (const kernels::PackedMemory& column : rows.columns) {
    bytes_ += column.size() * static_cast<int64_t>(sizeof(float));
  }
  steps_.push_back(std::move(rows));
}

void PackedCell::PackSteps(const CellFolds& folds) {
  for (size_t s = 0; s < program_->steps.size(); ++s) {
    const Step& step = program_->steps[s];
    if (const auto* product = std::get_if<ProductStep>(&step)) {
      steps_.push_back(PackProduct(*product, IsIn(folds.steps, s)));
    } else if (const auto* sum = std::get_if<SumStep>(&step)) {
      steps_.emplace_back(*sum);
    } else if (const auto* index = std::get_if<IndexStep>(&step)) {
      steps_.emplace_back(*index);
    } else {
      steps_.push_back(std::get<PlainStep>(step));
    }
  }
}

// One node, which reads no input and leaves each vector as a column of its own.
PackedCell::Prepared PackedCell::Prepare(const CellProgram& program) const {
  const PackedCell makes(*type_, *program.at_load, *kernels_, nullptr);
  std::vector<kernels::PackedMemory> made;
  CellColumns columns;
  for (const PreparedParameter& p : program.prepared) {
    made.emplace_back(p.width);
    columns.outputs.push_back({made.back().data(), p.width, p.width, p.type});
  }
  RunAlone(makes, columns, {1, nullptr, &kZeroRow});
  return std::make_shared<const std::vector<kernels::PackedMemory>>(std::move(made));
}

// Node t reads token t, from a column that starts where the cell looks, and leaves row t. No other column is read, so
// none is there.
FoldedCell PackedCell::FoldWhole() const {
  FoldedCell folded;
  folded.lookup = *LookupOfWhole(*program_);
  const LookupSpec& lookup = program_->lookups[static_cast<size_t>(folded.lookup)];
  std::vector<int32_t> rows(static_cast<size_t>(lookup.rows));
  std::iota(rows.begin(), rows.end(), 0);
  CellColumns columns;
  InputRows inputs[kMaxInputs];
  for (const Input& input : type_->definition->inputs()) {
    inputs[columns.inputs.size()].rows = rows.data();
    columns.inputs.emplace_back(input.reads.size());
  }
  const Place& place = lookup.token;
  std::vector<int32_t> tokens(static_cast<size_t>(place.offset));
  tokens.insert(tokens.end(), rows.begin(), rows.end());
  columns.inputs[static_cast<size_t>(place.index)][static_cast<size_t>(place.column)] = {
      reinterpret_cast<float*>(tokens.data()), 1, 1, ElementType::kInt32};
  for (const Column& column : type_->definition->columns()) {
    const int64_t stride = ColumnStride(column);
    folded.columns.emplace_back(stride * lookup.rows);
    columns.outputs.push_back({folded.columns.back().data(), stride, column.width, column.type});
  }
  RunAlone(*this, columns, {lookup.rows, inputs, rows.data()});
  return folded;
}

std::vector<float> PackedCell::Expand(const UnitValues& values, int32_t units) const {
  const auto* const constant = std::get_if<Constant>(&values);
  if (constant != nullptr) return std::vector<float>(static_cast<size_t>(units), constant->value());
  const auto& view = std::get<ParameterView>(values);
  const float* const data = Parameter(view.parameter) + view.offset;
  std::vector<float> expanded;
  for (int32_t u = 0; u < units; ++u) expanded.push_back(data[u * view.unit_stride]);
  return expanded;
}

namespace {

kernels::SegmentSpec Segment(const PackedCell& cell, const SegmentPlan& plan) {
  kernels::SegmentSpec segment;
  segment.depth = plan.depth;
  for (size_t g = 0; g < plan.weights.size(); ++g) {
    const std::optional<ParameterView>& w = plan.weights[g];
    if (!w.has_value()) continue;
    segment.weights[g] = {cell.Parameter(w->parameter) + w->offset, w->unit_stride,
                          w->depth_stride};
  }
  return segment;
}

// Of each unit the largest magnitude of the line of the parameter that its weights are part of: a scale is a matter of the
// matrix, and not of which segments a plan has made of it, what was folded and what is hoisted.
std::vector<float> LargestOfLines(const float* parameter, int64_t elements,
                                  const ParameterView& view, int32_t units, int32_t depth) {
  // A matrix has its lines one behind the other, or across; one of a single column may be read either way.
  const bool by_rows = view.depth_stride == 1;
  const int64_t columns = by_rows ? view.unit_stride : view.depth_stride;
  std::vector<float> largest;
  for (int32_t u = 0; u < units; ++u) {
    const int64_t at = view.offset + u * view.unit_stride;
    const int64_t own_end = at + (depth - 1) * view.depth_stride + 1;
    const int64_t first = by_rows ? at / columns * columns : at % columns;
    const int64_t end = by_rows ? std::min(first + columns, elements) : elements;
    float most = 0.0f;
    for (int64_t i = first; i < std::max(end, own_end); i += view.depth_stride) {
      most = std::max(most, std::abs(parameter[i]));
    }
    largest.push_back(most);
  }
  return largest;
}

// Several biases are added in double and rounded once.
std::vector<float> AddUp(const std::vector<std::vector<float>>& terms, int32_t units) {
  std::vector<float> sum(static_cast<size_t>(units));
  for (size_t u = 0; u < sum.size(); ++u) {
    double s = 0.0;
    for (const std::vector<float>& t : terms) s += static_cast<double>(t[u]);
    sum[u] = static_cast<float>(s);
  }
  return sum;
}

}  // namespace

int64_t PackedCell::Elements(ParameterId p) const {
  const auto number = static_cast<size_t>(p.value()), given = type_->weights.size();
  return number < given ? type_->weights[number].shape.size() : (*prepared_)[number - given].size();
}

void PackedCell::CheckWeights(const SegmentPlan& segment, int32_t units) {
  if (!status_.ok()) return;
  status_ =
      CheckHeld(segment, units, *type_, *program_, [&](ParameterId p) { return Parameter(p); });
}

PackedStep PackedCell::PackProduct(const ProductStep& plan, bool fold) {
  const std::string wrong = CheckProduct(plan, kCpuLimits);
  Check(wrong.empty(), wrong);
  PackedProductStep step;
  step.plan = &plan;
  step.first_segment = fold ? 1 : 0;
  if (fold) {
    CheckWeights(plan.segments[0], plan.units);
    step.folded = MakeFoldedTable(plan);
    bytes_ += step.folded->rows.size() * static_cast<int64_t>(sizeof(float));
  }
  SpecAndStorage made;
  made.storage.reserve(plan.parameters.size() + plan.bias.size() * (1 + plan.segments.size()));
  made.spec.units = plan.units;
  made.spec.groups = plan.groups();
  made.spec.tail = plan.tail;
  for (size_t s = static_cast<size_t>(step.first_segment); s < plan.segments.size(); ++s) {
    const SegmentPlan& segment = plan.segments[s];
    // (Programs in tf32 are for GPUs; tests pack them, too.)
    made.spec.precision =
        program_->precision == Precision::kTf32 ? Precision::kFp32 : program_->precision;
    made.spec.segments.push_back(Segment(*this, segment));
    CheckWeights(segment, plan.units);
    for (size_t g = 0; g < segment.weights.size(); ++g) {
      const std::optional<ParameterView>& w = segment.weights[g];
      if (!w.has_value() || program_->precision != Precision::kW8) continue;
      made.storage.push_back(LargestOfLines(Parameter(w->parameter), Elements(w->parameter), *w,
                                            plan.units, segment.depth));
      made.spec.segments.back().largest[g] = made.storage.back().data();
    }
  }
  for (size_t g = 0; g < plan.bias.size(); ++g) {
    if (plan.bias[g].empty()) continue;
    std::vector<std::vector<float>> terms;
    for (const UnitValues& values : plan.bias[g]) terms.push_back(Expand(values, plan.units));
    made.storage.push_back(AddUp(terms, plan.units));
    made.spec.bias[g] = made.storage.back().data();
  }
  for (const ParameterView& view : plan.parameters) {
    made.storage.push_back(Expand(view, plan.units));
    made.spec.parameters.push_back(made.storage.back().data());
  }
  step.product = std::make_unique<const kernels::PackedProduct>(made.spec, kernels_->packing);
  bytes_ += step.product->weight_bytes();
  return step;
}

// Row t: bias + E[t] . W, by the very kernel that would compute it at run time.
FoldedTable PackedCell::MakeFoldedTable(const ProductStep& plan) const {
  ProductStep first = plan;
  first.segments.resize(1);
  CellProgram program{{first}, program_->lookups, 0, program_->prepared};
  program.precision = program_->precision;
  const PackedCell only(*type_, std::move(program), *kernels_, prepared_);
  const auto& product = *std::get<PackedProductStep>(only.steps()[0]).product;
  const int32_t lookup = plan.segments[0].source.index;
  const LookupSpec& spec = program_->lookups[static_cast<size_t>(lookup)];
  FoldedTable folded;
  folded.lookup = lookup;
  folded.stride = FoldedRowFloats(plan);
  folded.rows = kernels::PackedMemory(FoldedFloats(*program_, plan));
  kernels::RowSource in;
  in.base = Parameter(spec.table) + spec.offset + plan.segments[0].source.offset;
  in.stride = spec.stride;
  const bool split = program_->precision == Precision::kFp32Split;
  const bool rounded = split || program_->precision == Precision::kBf16;
  const int32_t depth = plan.segments[0].depth, at_once = rounded ? kernels::kChunkRows : spec.rows;
  kernels::PackedMemory rounded_rows(rounded ? int64_t{at_once} * (depth + 1) : 0);
  kernels::ProductScratch scratch;
  for (int32_t row = 0; row < spec.rows; row += at_once) {
    const int32_t rows = std::min(at_once, spec.rows - row);
    kernels::RowSource from = in;
    from.base += row * in.stride;
    if (rounded) {
      const kernels::RowColumn to = {rounded_rows.data(), depth + 1};
      (split ? kernels_->split_to_bf16 : kernels_->round_to_bf16)(from, depth, rows, to);
      from = {to.base, to.stride};
    }
    kernels_->run_accumulators(product, {rows, &from}, 0, product.num_panels(), &scratch,
                               folded.rows.data() + row * folded.stride, folded.stride);
  }
  return folded;
}

}  // namespace cellbatch
