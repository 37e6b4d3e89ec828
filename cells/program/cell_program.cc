#include "cells/program/cell_program.h"

#include <algorithm>
#include <string_view>

#include "cells/check.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

std::string_view Name(PlainKind kind) {
  switch (kind) {
    case PlainKind::kCopy:
      return "copy";
    case PlainKind::kBroadcast:
      return "broadcast";
    case PlainKind::kMatMulByRows:
      return "matmul";
    case PlainKind::kMatMulByColumns:
      return "matmul_by_columns";
    case PlainKind::kTranspose:
      return "transpose";
    case PlainKind::kSlice:
      return "slice";
    case PlainKind::kSum:
      return "sum";
    case PlainKind::kMean:
      return "mean";
    case PlainKind::kSumSquares:
      return "sum_squares";
    case PlainKind::kMeanSquares:
      return "mean_squares";
    case PlainKind::kSoftmax:
      return "softmax";
    case PlainKind::kArgMax:
      return "argmax";
  }
  NoSuchEnumerator();
}

struct Describer {
  std::string operator()(const SumStep& s) const {
    return fmt::format("sum in{}.{} [{}] -> {}", s.input.value(), s.column, s.width,
                       Describe(s.to));
  }
  std::string operator()(const IndexStep& s) const {
    return fmt::format("index table{}", s.lookup);
  }
  std::string operator()(const ProductStep& s) const {
    std::string text = fmt::format("product {}x{}", s.groups(), s.units);
    for (const SegmentPlan& segment : s.segments) {
      text += fmt::format(" {}[{}]", Describe(segment.source), segment.depth);
      const auto& weights = segment.weights;
      if (std::all_of(weights.begin(), weights.end(),
                      [](const auto& w) { return w.has_value(); })) {
        continue;
      }
      text += "@";
      for (size_t g = 0; g < weights.size(); ++g) {
        if (weights[g].has_value()) text += std::to_string(g);
      }
    }
    for (size_t g = 0; g < s.starts.size(); ++g) {
      if (s.starts[g].has_value()) text += fmt::format(" {}:{}", g, Describe(*s.starts[g]));
    }
    text += fmt::format(" tail {}", s.tail.ops.size());
    if (s.arg_max.has_value()) return text + " largest -> " + Describe(*s.arg_max);
    for (const TailOp& op : s.tail.ops) {
      if (op.kind != TailOpKind::kStore) continue;
      text += " -> " + Describe(s.columns[static_cast<size_t>(op.index)]);
    }
    return text;
  }
  std::string operator()(const PlainStep& s) const {
    std::string text(Name(s.kind));
    for (const Place& p : s.args) text += " " + Describe(p);
    return text + fmt::format(" {} -> {}", s.shape.ToString(), Describe(s.to));
  }
};

}  // namespace

std::string CheckProduct(const ProductStep& step, const ProgramLimits& limits) {
  const auto over = [](std::string_view what, size_t there, int most) {
    if (there <= static_cast<size_t>(most)) return std::string();
    return fmt::format("{} {}, at most {} are possible", there, what, most);
  };
  for (const std::string& wrong : {over("groups", step.bias.size(), limits.groups),
                                   over("segments", step.segments.size(), limits.segments),
                                   over("operations", step.tail.ops.size(), limits.tail_ops),
                                   over("columns", step.columns.size(), limits.tail_columns)}) {
    if (!wrong.empty()) return wrong;
  }
  for (const SegmentPlan& segment : step.segments) {
    if (segment.weights.size() != step.bias.size())
      return "a segment with other groups than the product";
  }
  if (!step.starts.empty() && step.starts.size() != step.bias.size()) {
    return "starts of other groups than the product's";
  }
  for (size_t g = 0; g < step.starts.size(); ++g) {
    if (step.starts[g].has_value() && !step.bias[g].empty()) return "a start and a bias";
  }
  if (step.arg_max.has_value() && !limits.arg_max_of_product) return "an argmax at its end";
  const bool scalar = std::any_of(step.tail.ops.begin(), step.tail.ops.end(),
                                  [](const TailOp& op) { return op.kind == TailOpKind::kScalar; });
  if (scalar && !limits.scalars) return "one number for all units";
  const size_t kept = step.arg_max.has_value() ? 1 : 0;  // of the tail's columns, and not stored
  if (step.columns.size() + kept != static_cast<size_t>(step.tail.num_columns) ||
      step.parameters.size() != static_cast<size_t>(step.tail.num_parameters)) {
    return "a tail with other columns or parameters than the product";
  }
  return CheckTail(step.tail, step.groups());
}

std::string Describe(const Place& p) {
  const std::string offset = p.offset == 0 ? "" : fmt::format("+{}", p.offset);
  switch (p.kind) {
    case PlaceKind::kInput:
      return fmt::format("in{}.{}{}", p.index, p.column, offset);
    case PlaceKind::kOutput:
      return fmt::format("out{}{}", p.index, offset);
    case PlaceKind::kScratch:
      return fmt::format("scratch{}", offset);
    case PlaceKind::kTableRow:
      return fmt::format("table{}{}", p.index, offset);
    case PlaceKind::kParameter:
      return fmt::format("parameter{}{}", p.index, offset);
  }
  NoSuchEnumerator();
}

std::string DescribeSteps(const CellProgram& program) {
  std::string text;
  for (const Step& step : program.steps) text += std::visit(Describer(), step) + "\n";
  return text;
}

std::string Describe(const CellProgram& program) {
  std::string text;
  if (program.at_load != nullptr) {
    for (const Step& step : program.at_load->steps) {
      text += "at load: " + std::visit(Describer(), step) + "\n";
    }
  }
  return text + DescribeSteps(program);
}

}  // namespace cellbatch
