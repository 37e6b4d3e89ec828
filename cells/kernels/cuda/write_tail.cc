#include "cells/kernels/cuda/write_tail.h"

#include <bit>
#include <variant>

#include "cells/check.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

float ValueOf(const UnitValues& values, int64_t unit, const StepWriter& writer) {
  if (const auto* const constant = std::get_if<Constant>(&values)) return constant->value();
  const auto& view = std::get<ParameterView>(values);
  return ElementOf(view, writer.Data(view.parameter), unit, 0);
}

std::string Operand(const TailOp& op, const ProductStep& step, int arrays, const TailNames& names) {
  switch (op.kind) {
    case TailOpKind::kAccumulator:
      return names.sum(op.index);
    case TailOpKind::kColumn:
      return names.read(op.index);
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
      return fmt::format("{}(v{})", names.near ? "NearSigmoid" : "Sigmoid", op.a);
    case TailOpKind::kTanh:
      return fmt::format("{}(v{})", names.near ? "NearTanh" : "tanhf", op.a);
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

}  // namespace

float ElementOf(const ParameterView& view, const float* data, int64_t unit, int64_t k) {
  return data[view.offset + unit * view.unit_stride + k * view.depth_stride];
}

std::vector<int> GroupsOf(const SegmentPlan& segment) {
  std::vector<int> groups;
  for (size_t g = 0; g < segment.weights.size(); ++g) {
    if (segment.weights[g].has_value()) groups.push_back(static_cast<int>(g));
  }
  return groups;
}

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
    for (int64_t u = 0; u < step.units; ++u) arrays.push_back(ElementOf(view, data, u, 0));
  }
  return arrays;
}

std::string TailText(const ProductStep& step, int arrays, const TailNames& names,
                     StepWriter& writer) {
  std::string text;
  const auto rounded = [&](size_t column) {
    return writer.IsRounded(step.columns[column], step.units);
  };
  for (size_t i = 0; i < step.tail.ops.size(); ++i) {
    const TailOp& op = step.tail.ops[i];
    const std::string value = Operand(op, step, arrays, names);
    if (op.kind != TailOpKind::kStore) {
      text += fmt::format("    const float v{} = {};\n", i, value);
      continue;
    }
    text += fmt::format("    column{}[unit] = {};\n", op.index, value);
    const auto column = static_cast<size_t>(op.index);
    if (!rounded(column)) continue;
    text += fmt::format("    {}[unit] = RoundedToBf16({});\n",
                        writer.RoundedRow(step.columns[column], "node"), value);
  }
  std::string columns;  // those that are named
  for (size_t c = 0; c < step.columns.size(); ++c) {
    if (text.find(fmt::format("column{}[", c)) == text.npos) continue;
    columns +=
        fmt::format("    float* const column{} = {};\n", c, writer.Row(step.columns[c], "node"));
  }
  return columns + text;
}

std::string StartOf(const ProductStep& step, int group, int arrays, StepWriter& writer) {
  const bool begun = !step.starts.empty() && step.starts[Index(group)].has_value();
  return begun ? writer.Row(*step.starts[Index(group)], "node")
               : fmt::format("(a.values[{}] + {})", arrays, int64_t{group} * step.units);
}

}  // namespace cellbatch
