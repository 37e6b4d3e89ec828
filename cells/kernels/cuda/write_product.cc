// Products and element-wise steps as source: packed weights, biases, the tail operation by operation.
#include <algorithm>
#include <bit>
#include <utility>
#include <variant>

#include "cells/check.h"
#include "cells/kernels/cuda/product_tile.h"
#include "cells/kernels/cuda/step_writer.h"
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

float At(const ParameterView& view, const float* data, int64_t unit, int64_t k) {
  return data[view.offset + unit * view.unit_stride + k * view.depth_stride];
}

std::vector<int> GroupsOf(const SegmentPlan& segment) {
  std::vector<int> groups;
  for (size_t g = 0; g < segment.weights.size(); ++g) {
    if (segment.weights[g].has_value()) groups.push_back(static_cast<int>(g));
  }
  return groups;
}

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
        block[(k * kTileUnits + u % kTileUnits) * reads + g] = At(view, data, u, k);
      }
    }
  }
  return packed;
}

float ValueOf(const UnitValues& values, int64_t unit, const StepWriter& writer) {
  if (const auto* const constant = std::get_if<Constant>(&values)) return constant->value();
  const auto& view = std::get<ParameterView>(values);
  return At(view, writer.Data(view.parameter), unit, 0);
}

// What each unit has of its own: the biases of the groups, then the tail's parameters, as many floats each as there are units.
std::vector<float> UnitArrays(const ProductStep& step, const StepWriter& writer) {
  std::vector<float> arrays;
  for (const std::vector<UnitValues>& bias : step.bias) {
    for (int64_t u = 0; u < step.units; ++u) {
      float sum = 0.0f;
      for (const UnitValues& values : bias) sum += ValueOf(values, u, writer);
      arrays.push_back(sum);
    }
  }
  for (const ParameterView& view : step.parameters) {
    const float* const data = writer.Data(view.parameter);
    for (int64_t u = 0; u < step.units; ++u) arrays.push_back(At(view, data, u, 0));
  }
  return arrays;
}

std::string Operand(const TailOp& op, const ProductStep& step, int arrays) {
  switch (op.kind) {
    case TailOpKind::kAccumulator:
      return fmt::format("sums[j][{}]", op.index);
    case TailOpKind::kColumn:
      return fmt::format("column{}[unit]", op.index);
    case TailOpKind::kParameter:
      return fmt::format("a.values[{}][{} + unit]", arrays,
                         (step.groups() + op.index) * step.units);
    case TailOpKind::kConstant:
      return fmt::format("__int_as_float({})", std::bit_cast<int32_t>(op.constant));
    case TailOpKind::kAdd:
      return fmt::format("v{} + v{}", op.a, op.b);
    case TailOpKind::kSub:
      return fmt::format("v{} - v{}", op.a, op.b);
    case TailOpKind::kMul:
      return fmt::format("v{} * v{}", op.a, op.b);
    case TailOpKind::kDiv:
      return fmt::format("v{} / v{}", op.a, op.b);
    case TailOpKind::kMax:
      return fmt::format("fmaxf(v{}, v{})", op.a, op.b);
    case TailOpKind::kSigmoid:
      return fmt::format("Sigmoid(v{})", op.a);
    case TailOpKind::kTanh:
      return fmt::format("tanhf(v{})", op.a);
    case TailOpKind::kRelu:
      return fmt::format("fmaxf(v{}, 0.0f)", op.a);
    case TailOpKind::kExp:
      return fmt::format("expf(v{})", op.a);
    case TailOpKind::kLog:
      return fmt::format("logf(v{})", op.a);
    case TailOpKind::kStore:
      return fmt::format("v{}", op.a);
    case TailOpKind::kScalar:
      break;  // kCudaLimits has none
  }
  NoSuchEnumerator();
}

std::string Tail(const ProductStep& step, int arrays, StepWriter& writer) {
  std::string text;
  for (size_t c = 0; c < step.columns.size(); ++c) {
    text +=
        fmt::format("    float* const column{} = {};\n", c, writer.Row(step.columns[c], "node"));
  }
  for (size_t i = 0; i < step.tail.ops.size(); ++i) {
    const TailOp& op = step.tail.ops[i];
    const std::string value = Operand(op, step, arrays);
    text += op.kind == TailOpKind::kStore
                ? fmt::format("    column{}[unit] = {};\n", op.index, value)
                : fmt::format("    const float v{} = {};\n", i, value);
  }
  return text;
}

// The sums as they are before any segment.
std::string Starts(const ProductStep& step, int arrays, StepWriter& writer) {
  std::string text = "  for (int j = 0; j < kNodesEach; ++j) {\n";
  text += "    const int node = min(first + kWarps * j, now.num_nodes - 1);\n";
  for (int g = 0; g < step.groups(); ++g) {
    const bool begun = !step.starts.empty() && step.starts[Index(g)].has_value();
    const std::string from =
        begun ? writer.Row(*step.starts[Index(g)], "node")
              : fmt::format("(a.values[{}] + {})", arrays, int64_t{g} * step.units);
    text += fmt::format("    sums[j][{}] = unit < {} ? {}[unit] : 0.0f;\n", g, step.units, from);
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
  Check(!step.arg_max.has_value(), "CUDA programs have their argmax as a step");
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
      step.units, Tail(step, arrays, writer));
  const int blocks_x = (step.units + kTileUnits - 1) / kTileUnits;
  return writer.Finish(kProductThreads, blocks_x, kTileNodes, SharedBytes(step), body);
}

}  // namespace cellbatch
