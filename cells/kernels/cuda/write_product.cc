// Products in fp32 and element-wise steps as source: packed weights, and calls of product.cuh.
#include <algorithm>
#include <utility>

#include "cells/kernels/cuda/product_tile.h"
#include "cells/kernels/cuda/step_writer.h"
#include "cells/kernels/cuda/write_tail.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

using cuda_kernels::kPieceDepth;
using cuda_kernels::kProductThreads;
using cuda_kernels::kStages;
using cuda_kernels::kTileNodes;
using cuda_kernels::kTileUnits;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

int64_t RoundedUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// By block of units, then k, then unit, then group; what is beyond the units and the depth is zero.
std::vector<float> PackSegment(const SegmentPlan& segment, const std::vector<int>& groups,
                               int32_t units, const StepWriter& writer) {
  const int64_t depth = RoundedUp(segment.depth, kPieceDepth);
  const int64_t padded = RoundedUp(units, kTileUnits);
  const auto reads = static_cast<int64_t>(groups.size());
  std::vector<float> packed(Index(padded * depth * reads));
  for (int64_t g = 0; g < reads; ++g) {
    const ParameterView& view = *segment.weights[Index(groups[Index(g)])];
    const float* const data = writer.Data(view.parameter);
    for (int64_t u = 0; u < units; ++u) {
      float* const block = packed.data() + u / kTileUnits * depth * kTileUnits * reads;
      for (int64_t k = 0; k < segment.depth; ++k) {
        block[(k * kTileUnits + u % kTileUnits) * reads + g] = ElementOf(view, data, u, k);
      }
    }
  }
  return packed;
}

// The sums as they are before any segment.
std::string Starts(const ProductStep& step, int arrays, StepWriter& writer) {
  std::string text = "  for (int j = 0; j < kNodesEach; ++j) {\n";
  text += "    const int node = min(first + kWarps * j, now.num_nodes - 1);\n";
  for (int g = 0; g < step.groups(); ++g) {
    text += fmt::format("    sums[j][{}] = unit < {} ? {}[unit] : 0.0f;\n", g, step.units,
                        StartOf(step, g, arrays, writer));
  }
  return text + "  }\n";
}

std::string Segment(const SegmentPlan& segment, int32_t units, StepWriter& writer) {
  const std::vector<int> groups = GroupsOf(segment);
  if (groups.empty() || segment.depth == 0) return "";
  const int weights = writer.Value(PackSegment(segment, groups, units, writer));
  const int64_t a_block =
      RoundedUp(segment.depth, kPieceDepth) * kTileUnits * static_cast<int64_t>(groups.size());
  return fmt::format(
      "  {{\n    const float* rows[kNodesEach];\n"
      "    for (int j = 0; j < kNodesEach; ++j) {{\n"
      "      const int node = min(first + kWarps * j, now.num_nodes - 1);\n"
      "      rows[j] = {};\n    }}\n"
      "    AddSegment<{}>(sums, rows, {}, a.values[{}] + blockIdx.x * {}LL);\n  }}\n",
      writer.Row(segment.source, "node"), fmt::join(groups, ", "), segment.depth, weights, a_block);
}

int SharedBytes(const ProductStep& step) {
  int most = 0;
  for (const SegmentPlan& segment : step.segments) {
    most = std::max(most, static_cast<int>(GroupsOf(segment).size()));
  }
  const int piece = kTileNodes * kPieceDepth + kPieceDepth * kTileUnits * most;
  return most == 0 ? 0 : kStages * piece * static_cast<int>(sizeof(float));
}

}  // namespace

CudaStep WriteProduct(const ProductStep& step, StepWriter writer) {
  const int arrays = writer.Value(UnitArrays(step, writer));
  std::string body = fmt::format(
      "  const int unit = blockIdx.x * kTileUnits + threadIdx.x % 32;\n"
      "  const int first = blockIdx.y * kTileNodes + threadIdx.x / 32;\n"
      "  if (static_cast<int>(blockIdx.y) * kTileNodes >= now.num_nodes) return;\n");
  if (step.groups() > 0) {
    body += fmt::format("  float sums[kNodesEach][{}];\n", step.groups());
    body += Starts(step, arrays, writer);
    for (const SegmentPlan& segment : step.segments) body += Segment(segment, step.units, writer);
  }
  body += fmt::format(
      "  for (int j = 0; j < kNodesEach; ++j) {{\n    const int node = first + kWarps * j;\n"
      "    if (node >= now.num_nodes || unit >= {}) continue;\n{}  }}\n",
      step.units,
      TailText(step, arrays,
               {[](int g) { return fmt::format("sums[j][{}]", g); },
                [](int c) { return fmt::format("column{}[unit]", c); }},
               writer));
  const int blocks_x = (step.units + kTileUnits - 1) / kTileUnits;
  writer.AddShape("", {"", kProductThreads, blocks_x, kTileNodes, SharedBytes(step)},
                  StepWriter::kBegin + body);
  return writer.Finish();
}

}  // namespace cellbatch
