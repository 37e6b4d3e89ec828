// Products on tensor cores as source, in fp32, tf32 or bf16: calls of mma_product.cuh or, of bf16 for Hopper GPUs, of wgmma_product.cuh, by
// blocks of several shapes.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "cells/kernels/cuda/mma_blocks.h"
#include "cells/kernels/cuda/mma_tile.h"
#include "cells/kernels/cuda/mma_values.h"
#include "cells/kernels/cuda/step_writer.h"
#include "cells/kernels/cuda/write_tail.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

using cuda_kernels::kMmaPieceChunks;
using cuda_kernels::kMmaTileBytes;
using cuda_kernels::MmaNumbers;
using cuda_kernels::MmaSumsStride;

// Shapes that have room for less are left out, or that want more shared memory than there is.
constexpr int kFewestStages = 3;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

struct Segment {
  MmaSource source;
  std::vector<int> groups;
  int weights = 0;  // the number of its packed weights among the step's values
  int32_t depth = 0;
};

// The numbers of columns that the tail reads, in order.
std::vector<int> TailReads(const ProductStep& step) {
  std::set<int> read;
  for (const TailOp& op : step.tail.ops) {
    if (op.kind == TailOpKind::kColumn) read.insert(op.index);
  }
  return {read.begin(), read.end()};
}

class MmaWriter {
 public:
  MmaWriter(const ProductStep& step, StepWriter& writer)
      : step_(step),
        writer_(writer),
        arrays_(writer.Value(UnitArrays(step, writer))),
        reads_(TailReads(step)),
        numbers_(MmaNumbersOf(writer.program().precision)),
        wgmma_(writer.target().wgmma && numbers_ == MmaNumbers::kBf16) {
    int most_reads = 0;
    bool whole = true;
    for (const SegmentPlan& plan : step.segments) {
      std::vector<int> groups = GroupsOf(plan);
      if (groups.empty() || plan.depth == 0) continue;
      const auto reads = static_cast<int>(groups.size());
      most_reads = std::max(most_reads, reads);
      whole = whole && reads == step.groups();
      const int weights =
          writer.Value(PackMmaWeights(plan, groups, step.units, step.groups(), wgmma_, writer));
      segments_.push_back({MmaSourceOf(plan, writer), std::move(groups), weights, plan.depth});
      total_ += MmaPieces(plan.depth, numbers_);
    }
    FindInputs();
    product_ = {numbers_,
                step_.groups(),
                most_reads,
                whole,
                1 + static_cast<int>(inputs_.size()),
                static_cast<int>(reads_.size())};
  }

  void AddShapes() {
    for (const MmaBlock& block : MmaBlocks(product_, wgmma_, writer_.target().most_shared)) {
      Add(block);
    }
  }

 private:
  void Add(const MmaBlock& block) {
    const int lists = product_.ListBytes(block.nodes);
    const int given = product_.GivenBytes(block.nodes, block.units);
    const int sums = block.nodes * MmaSumsStride(block.units, step_.groups()) * 4;
    const int barriers = wgmma_ ? kWgmmaPlaceBytes * block.stages : 0;
    const int aligned = wgmma_ ? kWgmmaRingAligned : 0;  // room to align the ring
    const int stages_at = lists + given + barriers;
    const int shared = stages_at + std::max(block.stages * block.stage_bytes + aligned, sums);
    if (block.stages < kFewestStages || shared > writer_.target().most_shared) return;
    std::string body = fmt::format(
        "  using Shape = {};\n"
        "  const int first_node = blockIdx.y * Shape::kNodes;\n"
        "  const int first_unit = blockIdx.x * Shape::kUnits;\n"
        "  char* const shared = reinterpret_cast<char*>(cellbatch_shared);\n",
        block.type);
    if (wgmma_) body += fmt::format("  WgmmaPlaces<Shape> places(shared + {});\n", lists + given);
    body += Weights(block, stages_at);
    body += Lists(block);
    body += "  {\n  const auto& now = near;\n";
    body += Given(lists);
    body += Rows();
    body += Sums();
    body += Tail(stages_at);
    body += "  }\n";
    const int blocks_x = (step_.units + block.units - 1) / block.units;
    const std::string cluster = block.cluster == 1 ? "" : fmt::format("c{}", block.cluster);
    writer_.AddShape(fmt::format("_n{}x{}{}", block.nodes, block.units, cluster),
                     {"", block.threads, blocks_x, block.nodes, shared, block.most_nodes,
                      numbers_ != MmaNumbers::kBf16, block.cluster},
                     body);
  }

  // Inputs whose lists are read.
  void FindInputs() {
    std::set<int> inputs;
    const auto note = [&](const Place& place) {
      if (place.kind == PlaceKind::kInput) inputs.insert(place.index);
    };
    for (const SegmentPlan& segment : step_.segments) note(segment.source);
    for (const Place& column : step_.columns) note(column);
    for (const std::optional<Place>& start : step_.starts) {
      if (start.has_value()) note(*start);
    }
    inputs_.assign(inputs.begin(), inputs.end());
  }

  // A block without nodes leaves when what is on its way to it has come. Where others want what it brings, it goes all the way, with
  // rows of zeros.
  std::string Leave(const MmaBlock& block) const {
    if (block.cluster > 1) return "";
    return "  if (first_node >= num_nodes) {\n" +
           (wgmma_ ? fmt::format("    GridDependencyWait();\n"
                                 "    return WaitForWgmmaWeights(places, {});\n",
                                 total_)
                   : std::string("    CloseGroup();\n    return WaitForAllBut<0>();\n")) +
           "  }\n";
  }

  // The block's rows by number; beyond the last node that one's. On Hopper they are read while the kernel in front still runs, where
  // begin has left them long before; others wait for it first.
  std::string Lists(const MmaBlock& block) const {
    std::string text =
        (wgmma_ ? std::string("  if (a.lists_are_there == 0) GridDependencyWait();\n"
                              "  const cellbatch::cuda_abi::TaskNow& now = *a.now;\n")
                : std::string(StepWriter::kBegin)) +
        "  const int num_nodes = now.num_nodes;\n" + Leave(block) +
        "  int* const lists = reinterpret_cast<int*>(shared);\n"
        "  for (int i = threadIdx.x; i < Shape::kNodes; i += Shape::kThreads) {\n"
        "    const int node = min(first_node + i, num_nodes - 1);\n"
        "    lists[i] = now.output_rows[node];\n";
    std::string near = fmt::format(
        "  const int lists_from = {};\n"
        "  MmaNow near = {{}};\n  near.output_rows = lists - lists_from;\n",
        wgmma_ ? "min(first_node, num_nodes - 1)" : "first_node");
    for (size_t i = 0; i < inputs_.size(); ++i) {
      text += fmt::format("    lists[{} * Shape::kNodes + i] = now.inputs[{}].rows[node];\n", i + 1,
                          inputs_[i]);
      near += fmt::format("  near.inputs[{}].rows = lists + {} * Shape::kNodes - lists_from;\n",
                          inputs_[i], i + 1);
    }
    text += "  }\n";
    if (wgmma_) text += "  GridDependencyWait();\n  GridDependentsMayBegin();\n  StampBegin(a);\n";
    return text + "  __syncthreads();\n" + near;
  }

  // What the tail reads starts on its way: each thread its own nodes' and units'.
  std::string Given(int lists) const {
    if (reads_.empty()) return "";
    std::string text = fmt::format(
        "  float* const given = reinterpret_cast<float*>(shared + {});\n"
        "  for (int i = threadIdx.x; i < Shape::kNodes * Shape::kUnits; i += Shape::kThreads) {{\n"
        "    const int node = first_node + i / Shape::kUnits;\n"
        "    const int unit = first_unit + i % Shape::kUnits;\n"
        "    if (node >= num_nodes || unit >= {}) continue;\n",
        lists, step_.units);
    for (size_t r = 0; r < reads_.size(); ++r) {
      text += fmt::format(
          "    CopyAsync4(given + {} * Shape::kNodes * Shape::kUnits + i, {} + unit);\n", r,
          writer_.Row(step_.columns[Index(reads_[r])], "node"));
    }
    return text + (wgmma_ ? "  }\n  CloseGroup();\n" : "  }\n");
  }

  // Of all pieces of a segment, from one tile or pack to the next.
  int64_t BytesOf(const Segment& segment) const {
    const int64_t pieces = MmaPieces(segment.depth, numbers_);
    const auto reads = static_cast<int64_t>(segment.groups.size());
    return wgmma_ ? pieces * WgmmaPacks::For(step_.groups()).bytes()
                  : pieces * kMmaPieceChunks * reads * kMmaTileBytes;
  }

  // load(p, to, ..) for piece p of all segments, one behind the other, called for each in order: begin(s) where segment s begins,
  // then call(s), written once where they are alike.
  template <typename Begin, typename Call>
  std::string Pieced(const std::string& name, const std::string& more, const Begin& begin,
                     const Call& call) const {
    std::string text = fmt::format("  const auto {} = [&](int p, char* to{}) {{\n", name, more);
    int64_t first = 0;
    for (size_t s = 0; s < segments_.size(); ++s) {
      text += fmt::format("    if (p == {}) {{\n      {}\n    }}\n", first, begin(segments_[s]));
      first += MmaPieces(segments_[s].depth, numbers_);
      if (s + 1 == segments_.size()) {
        text += fmt::format("    {};\n", call(segments_[s]));
      } else if (call(segments_[s]) != call(segments_[s + 1])) {
        text += fmt::format("    if (p < {}) return {};\n", first, call(segments_[s]));
      }
    }
    return text + "  };\n";
  }

  // The type of what loads a segment's weights: one loader for segments that are alike.
  std::string WeightsType(const Segment& segment) const {
    const auto reads = static_cast<int>(segment.groups.size());
    return wgmma_ ? "WgmmaWeights<Shape>"
                  : fmt::format("MmaWeights<Shape, {}>", kMmaPieceChunks * reads * kMmaTileBytes);
  }

  // What depends on no task is started before anything is known of it.
  std::string Weights(const MmaBlock& block, int stages_at) const {
    std::string text = fmt::format("  char* const stages = {}(shared + {});\n",
                                   wgmma_ ? "WgmmaAligned" : "", stages_at);
    std::set<std::string> types;
    for (const Segment& segment : segments_) types.insert(WeightsType(segment));
    const auto loader = [&](const std::string& type) {
      return fmt::format("weights{}", std::distance(types.begin(), types.find(type)));
    };
    for (const std::string& type : types) text += fmt::format("  {} {};\n", type, loader(type));
    const int64_t tiles =
        wgmma_ ? WgmmaPacks::For(step_.groups()).Count(step_.units) : MmaTiles(step_.units);
    text += Pieced(
        "load_weights", wgmma_ ? ", Barrier* full" : "",
        [&](const Segment& segment) {
          return fmt::format("{}.Begin(a.values[{}], {});", loader(WeightsType(segment)),
                             segment.weights, BytesOf(segment));
        },
        [&](const Segment& segment) {
          return fmt::format("{}.Load(to, {}{})", loader(WeightsType(segment)), tiles,
                             wgmma_ ? ", full" : "");
        });
    text += fmt::format("  constexpr int kStageBytes = {};\n", block.stage_bytes);
    return text + (wgmma_ ? fmt::format("  FillWithWgmmaWeights<Shape, kStageBytes>(places, "
                                        "stages, {}, load_weights);\n",
                                        total_)
                          : fmt::format("  FillWithWeights<Shape::kStages - 1, "
                                        "kStageBytes>(stages, {}, load_weights);\n",
                                        total_));
  }

  std::string Rows() const {
    return fmt::format("  {}<Shape> loader;\n", wgmma_ ? "WgmmaRows" : "MmaRows") +
           Pieced(
               "load_rows", wgmma_ ? ", Barrier* full" : "",
               [&](const Segment& segment) {
                 return fmt::format(
                     "loader.Begin([&](int n) {{\n"
                     "        const int node = min(first_node + n, num_nodes - 1);\n"
                     "        return {};\n"
                     "      }}, {});",
                     segment.source.row, segment.depth);
               },
               [&](const Segment& segment) {
                 return fmt::format("loader.Load<{}, {}>(to, num_nodes - first_node{})",
                                    segment.depth % MmaPieceDepth(numbers_) == 0,
                                    segment.source.aligned, wgmma_ ? ", full" : "");
               });
  }

  // Where sums begin that no other product has begun: biases, group by group.
  std::string Starts() {
    if (step_.starts.empty()) {
      return fmt::format("    sum = unit < {0} ? a.values[{1}][g * {0} + unit] : 0.0f;\n",
                         step_.units, arrays_);
    }
    std::string text = fmt::format("    sum = 0.0f;\n    if (unit >= {}) return;\n", step_.units);
    for (int g = 0; g < step_.groups(); ++g) {
      text +=
          fmt::format("    if (g == {}) sum = {}[unit];\n", g, StartOf(step_, g, arrays_, writer_));
    }
    return text;
  }

  // visit(g, n, u, sum) of every sum that a thread has.
  std::string ForEach(const std::string& parameter, const std::string& body) const {
    const std::string of =
        wgmma_ ? "ForEachWgmmaSum<Shape>" : fmt::format("ForEachMmaSum<Shape, {}>", step_.groups());
    return fmt::format("  {}(sums, [&](int g, int n, int u, {}) {{\n{}  }});\n", of, parameter,
                       body);
  }

  std::string Sums() {
    const std::string starts = ForEach(
        "float& sum",
        "    const int node = min(first_node + n, num_nodes - 1), unit = first_unit + u;\n" +
            Starts());
    std::string text = "  Shape::Sums sums = {};\n";
    if (wgmma_) {
      text += fmt::format(
          "  if (Shape::Loader() >= 0) {{\n"
          "    LoadWgmmaPieces<Shape, kStageBytes>(places, stages, {0}, load_rows, load_weights);\n"
          "  }} else {{\n"
          "{1}"
          "  WgmmaRing<Shape, kStageBytes> ring{{stages, {0}, places}};\n",
          total_, starts);
    } else {
      text += fmt::format(
          "  MmaRing<Shape, kStageBytes, decltype(load_rows), decltype(load_weights)> "
          "ring{{stages, {}, load_rows, load_weights}};\n"
          "  ring.Fill();\n{}",
          total_, starts);
    }
    for (size_t s = 0; s < segments_.size();) {
      const std::vector<int>& groups = segments_[s].groups;
      int64_t pieces = 0;
      for (; s < segments_.size() && segments_[s].groups == groups; ++s) {
        pieces += MmaPieces(segments_[s].depth, numbers_);
      }
      text += fmt::format("  ring.Add<{}, {}>(sums, {});\n",
                          static_cast<int>(groups.size()) == step_.groups(),
                          fmt::join(groups, ", "), pieces);
    }
    if (wgmma_) text += "  ring.End();\n  }\n";
    return text;
  }

  std::string Tail(int sums_at) {
    const auto sum = [](int g) { return fmt::format("sum[{} * Shape::kUnits]", g); };
    const auto read = [&](int column) {
      const auto found = std::find(reads_.begin(), reads_.end(), column);
      return fmt::format("given[{} * Shape::kNodes * Shape::kUnits + i]", found - reads_.begin());
    };
    return fmt::format(
        "  WaitForAllBut<0>();\n"
        "  __syncthreads();  // the ring is nobody's any more\n"
        "  float* const left = reinterpret_cast<float*>(shared + {0});\n"
        "  constexpr int kStride = MmaSumsStride(Shape::kUnits, {1});\n"
        "{4}"
        "  __syncthreads();\n"
        "#pragma unroll 1\n"
        "  for (int i = threadIdx.x; i < Shape::kNodes * Shape::kUnits; i += Shape::kThreads) {{\n"
        "    const int node = first_node + i / Shape::kUnits;\n"
        "    const int unit = first_unit + i % Shape::kUnits;\n"
        "    if (node >= num_nodes || unit >= {2}) continue;\n"
        "    const float* const sum = left + i / Shape::kUnits * kStride + i % Shape::kUnits;\n"
        "{3}  }}\n",
        sums_at, step_.groups(), step_.units,
        TailText(step_, arrays_, {sum, read, numbers_ == MmaNumbers::kBf16}, writer_),
        ForEach("float sum", "    left[n * kStride + g * Shape::kUnits + u] = sum;\n"));
  }

  const ProductStep& step_;
  StepWriter& writer_;
  const int arrays_;
  const std::vector<int> reads_;  // columns of the tail
  std::vector<Segment> segments_;
  std::vector<int> inputs_;
  const MmaNumbers numbers_;
  const bool wgmma_;
  MmaProduct product_ = {};
  int64_t total_ = 0;  // pieces
};

}  // namespace

CudaStep WriteMmaProduct(const ProductStep& step, StepWriter writer) {
  MmaWriter product(step, writer);
  product.AddShapes();
  return writer.Finish();
}

}  // namespace cellbatch
