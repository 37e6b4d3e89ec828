#include "cells/compile/operator_problem.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "cells/check.h"
#include "cells/compile/lane_graph.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

std::string_view Name(TailOpKind kind) {
  switch (kind) {
    case TailOpKind::kAdd:
      return "add";
    case TailOpKind::kSub:
      return "sub";
    case TailOpKind::kMul:
      return "mul";
    case TailOpKind::kDiv:
      return "div";
    case TailOpKind::kMax:
      return "max";
    case TailOpKind::kSigmoid:
      return "sigmoid";
    case TailOpKind::kTanh:
      return "tanh";
    case TailOpKind::kRelu:
      return "relu";
    case TailOpKind::kExp:
      return "exp";
    case TailOpKind::kLog:
      return "log";
    case TailOpKind::kAccumulator:
    case TailOpKind::kColumn:
    case TailOpKind::kParameter:
    case TailOpKind::kConstant:
    case TailOpKind::kStore:
      break;
  }
  CheckFailed("an expression's operator computes something", std::source_location::current());
}

class OperatorProblemBuilder {
 public:
  OperatorProblemBuilder(const LaneGraph& graph, int32_t instances,
                         const std::vector<std::string>& placed)
      : graph_(graph), instances_(instances), placed_(placed), variable_(graph.exprs().size(), -1) {
    outputs_.insert(graph.outputs().begin(), graph.outputs().end());
    DeclareInputs();
    for (const ExprId e : graph.outputs()) Visit(e);
  }

  LayoutProblem Take() && { return std::move(problem_); }

 private:
  void DeclareInputs();
  void DeclareInput(ExprId e, int32_t input, int32_t column, int32_t offset);
  VariableId Declare(std::string name, VariableKind kind, int64_t elements);
  VariableId Weights(const ParameterView& view, int64_t elements);
  VariableId Visit(ExprId e);
  VariableId VisitJoined(const std::vector<ExprId>& pieces);
  // Declares what the operator writes, after what it reads, and adds it.
  VariableId Write(std::string what, std::vector<VariableId> sources, int64_t elements,
                   bool output);
  void Read(ExprId e, std::string& what, std::vector<VariableId>& sources);
  VariableId VisitProduct(ExprId e, const AccumulatorExpr& product);
  bool IsOutput(ExprId e) const { return outputs_.contains(e); }

  const LaneGraph& graph_;
  const int64_t instances_;
  const std::vector<std::string>& placed_;
  LayoutProblem problem_;
  std::set<std::string> names_;
  std::set<ExprId> outputs_;
  std::vector<VariableId> variable_;  // by expression; -1: not declared yet
  std::map<std::tuple<int32_t, int64_t, int64_t, int64_t, int64_t>, VariableId> weights_;
  std::map<std::vector<ExprId>, VariableId> joined_;
};

VariableId OperatorProblemBuilder::Declare(std::string name, VariableKind kind, int64_t elements) {
  // Parts of one column, or of one matrix, may begin at one element.
  const size_t number = problem_.variables.size();
  while (!names_.insert(name).second) name += fmt::format("'{}", number);
  problem_.variables.push_back({std::move(name), kind, elements * 4});
  return static_cast<VariableId>(problem_.variables.size()) - 1;
}

void OperatorProblemBuilder::DeclareInput(ExprId e, int32_t input, int32_t column, int32_t offset) {
  const Input& from = graph_.cell().inputs()[static_cast<size_t>(input)];
  const std::string name = from.name + "." + from.reads[static_cast<size_t>(column)].name;
  const VariableId v = Declare(offset == 0 ? name : fmt::format("{}.{}", name, offset),
                               VariableKind::kInput, graph_.at(e).width * instances_);
  variable_[static_cast<size_t>(e)] = v;
  if (std::find(placed_.begin(), placed_.end(), name) == placed_.end()) {
    problem_.fixed.push_back({v});
  }
}

// In the cell's order.
void OperatorProblemBuilder::DeclareInputs() {
  std::map<std::tuple<int32_t, int32_t, int32_t, int32_t>, ExprId> inputs;
  for (size_t i = 0; i < graph_.exprs().size(); ++i) {
    const auto e = static_cast<ExprId>(i);
    const auto add = [&](const auto& n) {
      inputs[{n.input, n.column, n.offset, graph_.at(e).width}] = e;
    };
    if (const auto* n = graph_.at(e).As<InputExpr>()) add(*n);
    if (const auto* n = graph_.at(e).As<SummedInputExpr>()) add(*n);
  }
  for (const auto& [key, e] : inputs) {
    DeclareInput(e, std::get<0>(key), std::get<1>(key), std::get<2>(key));
  }
}

VariableId OperatorProblemBuilder::Weights(const ParameterView& view, int64_t elements) {
  const int32_t parameter = view.parameter.value();
  const auto [at, is_new] = weights_.try_emplace(
      {parameter, view.offset, view.unit_stride, view.depth_stride, elements}, -1);
  if (is_new) {
    at->second =
        Declare(fmt::format("W{}.{}", parameter, view.offset), VariableKind::kConstant, elements);
  }
  return at->second;
}

VariableId OperatorProblemBuilder::Write(std::string what, std::vector<VariableId> sources,
                                         int64_t elements, bool output) {
  const VariableId to = Declare(fmt::format("v{}", problem_.variables.size()),
                                output ? VariableKind::kOutput : VariableKind::kValue, elements);
  OperandBatch op = {std::move(what), {{to}}};
  for (const VariableId v : sources) op.operands.push_back({v});
  problem_.batches.push_back(std::move(op));
  return to;
}

// A source of an operator, or, if the cell states it, a part of what the operator does.
void OperatorProblemBuilder::Read(ExprId e, std::string& what, std::vector<VariableId>& sources) {
  const Expr& expr = graph_.at(e);
  if (const auto* const constant = expr.As<ConstantExpr>()) {
    what += fmt::format("_{:x}", constant->value.bits);
    return;
  }
  if (expr.Is<ParameterExpr>()) what += "_weights";
  sources.push_back(Visit(e));
}

VariableId OperatorProblemBuilder::VisitJoined(const std::vector<ExprId>& pieces) {
  if (pieces.size() == 1) return Visit(pieces[0]);
  const auto there = joined_.find(pieces);
  if (there != joined_.end()) return there->second;
  std::vector<VariableId> sources;
  int64_t elements = 0;
  for (const ExprId piece : pieces) {
    sources.push_back(Visit(piece));
    elements += graph_.at(piece).width * instances_;
  }
  return joined_[pieces] = Write("concat", std::move(sources), elements, false);
}

VariableId OperatorProblemBuilder::VisitProduct(ExprId e, const AccumulatorExpr& product) {
  std::vector<ExprId> pieces;
  int64_t depth = 0;
  for (const Term& term : product.terms) {
    pieces.push_back(term.x);
    depth += term.depth;
  }
  const int32_t width = graph_.at(e).width;
  const VariableId row = VisitJoined(pieces);
  const VariableId weights = Weights(product.terms[0].w, depth * width);
  return Write("matmul", {weights, row}, width * instances_, IsOutput(e));
}

VariableId OperatorProblemBuilder::Visit(ExprId e) {
  if (variable_[static_cast<size_t>(e)] >= 0) return variable_[static_cast<size_t>(e)];
  const int64_t elements = graph_.at(e).width * instances_;
  const auto write = [&](std::string what, const std::vector<ExprId>& args) {
    std::vector<VariableId> sources;
    for (const ExprId a : args) Read(a, what, sources);
    return Write(std::move(what), std::move(sources), elements, IsOutput(e));
  };
  const auto declared = [](const auto&) -> VariableId {
    CheckFailed("inputs are declared first", std::source_location::current());
  };
  const VariableId made = std::visit(
      Overloaded{
          [&](const InputExpr& n) { return declared(n); },
          [&](const SummedInputExpr& n) { return declared(n); },
          [&](const TableRowExpr& n) {
            return write(fmt::format("lookup{}", n.lookup), {n.token});
          },
          [&](const ParameterExpr& n) { return Weights(n.view, graph_.at(e).width); },
          [&](const ConstantExpr&) { return write("constant", {e}); },
          [&](const OpExpr& n) { return write(std::string(Name(n.op)), n.args); },
          [&](const AccumulatorExpr& n) { return VisitProduct(e, n); },
          [&](const ConcatExpr& n) { return write("concat", n.pieces); },
          [&](const PlainExpr& n) {
            return write(fmt::format("plain{}", static_cast<int>(n.kind)), n.args);
          },
          [&](const PartExpr& n) { return write(fmt::format("part{}", n.offset), {n.whole}); }},
      graph_.at(e).node);
  return variable_[static_cast<size_t>(e)] = made;
}

}  // namespace

absl::StatusOr<LayoutProblem> OperatorProblem(const CellDefinition& cell, int32_t instances,
                                              const std::vector<std::string>& placed) {
  const absl::StatusOr<LaneGraph> graph = LaneGraph::BuildAsWritten(cell);
  if (!graph.ok()) return graph.status();
  return OperatorProblemBuilder(*graph, instances, placed).Take();
}

}  // namespace cellbatch
