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
    case TailOpKind::kScalar:
    case TailOpKind::kParameter:
    case TailOpKind::kConstant:
    case TailOpKind::kStore:
      break;
  }
  CheckFailed("an expression's operator computes something", std::source_location::current());
}

class OperatorsBuilder {
 public:
  OperatorsBuilder(const LaneGraph& graph, int32_t instances,
                   const std::vector<std::string>& placed)
      : graph_(graph), instances_(instances), placed_(placed), variable_(graph.exprs().size(), -1) {
    outputs_.insert(graph.outputs().begin(), graph.outputs().end());
    made_.lookups = graph.lookups();
    DeclareInputs();
    for (const ExprId e : graph.outputs()) made_.outputs.push_back(Visit(e));
  }

  CellOperators Take() && { return std::move(made_); }

 private:
  void DeclareInputs();
  void DeclareInput(ExprId e, const BroughtLanes& lanes);
  VariableId Declare(std::string name, VariableKind kind, OperatorVariable variable);
  VariableId Weights(const StoredWeights& weights);
  VariableId Vector(const ParameterView& view, int32_t width);
  VariableId Visit(ExprId e);
  VariableId VisitJoined(const std::vector<ExprId>& pieces);
  // Declares what the operator writes, after what it reads, and adds it.
  VariableId Write(std::string what, std::vector<VariableId> sources, OperatorVariable result,
                   bool output);
  VariableId Write(ExprId e, std::string what, std::vector<VariableId> sources,
                   VariableSource from);
  // Visits the sources of an operator. What is the same for every instance is part of its name, by its place.
  std::vector<VariableId> Sources(const std::vector<ExprId>& args, std::string& what);
  VariableId VisitElementWise(ExprId e, const OpExpr& op);
  VariableId VisitProduct(ExprId e, const AccumulatorExpr& product);
  VariableId VisitPlain(ExprId e, const PlainExpr& plain);
  bool IsConstant(VariableId v) const {
    return made_.problem.variables[static_cast<size_t>(v)].kind == VariableKind::kConstant;
  }

  const LaneGraph& graph_;
  const int64_t instances_;
  const std::vector<std::string>& placed_;
  CellOperators made_;
  std::set<std::string> names_;
  std::set<ExprId> outputs_;
  std::vector<VariableId> variable_;  // by expression; -1: not declared yet
  std::map<StoredWeights, VariableId> weights_;
  std::map<std::vector<ExprId>, VariableId> joined_;
};

VariableId OperatorsBuilder::Declare(std::string name, VariableKind kind,
                                     OperatorVariable variable) {
  // Parts of one column, or of one matrix, may begin at one element.
  const size_t number = made_.problem.variables.size();
  while (!names_.insert(name).second) name += fmt::format("'{}", number);
  const int64_t instances = kind == VariableKind::kConstant ? 1 : instances_;
  made_.problem.variables.push_back({std::move(name), kind, variable.width * instances * 4});
  made_.variables.push_back(std::move(variable));
  return static_cast<VariableId>(number);
}

void OperatorsBuilder::DeclareInput(ExprId e, const BroughtLanes& lanes) {
  const Input& from = graph_.cell().inputs()[static_cast<size_t>(lanes.input)];
  const std::string name = from.name + "." + from.reads[static_cast<size_t>(lanes.column)].name;
  const VariableId v =
      Declare(lanes.offset == 0 ? name : fmt::format("{}.{}", name, lanes.offset),
              VariableKind::kInput, {graph_.at(e).width, graph_.at(e).type, lanes});
  variable_[static_cast<size_t>(e)] = v;
  if (std::find(placed_.begin(), placed_.end(), name) == placed_.end()) {
    made_.problem.fixed.push_back({v});
  }
}

// In the cell's order.
void OperatorsBuilder::DeclareInputs() {
  std::map<std::tuple<int32_t, int32_t, int32_t, int32_t>, std::pair<ExprId, BroughtLanes>> inputs;
  for (size_t i = 0; i < graph_.exprs().size(); ++i) {
    const auto e = static_cast<ExprId>(i);
    const auto add = [&](const auto& n, bool summed) {
      inputs[{n.input, n.column, n.offset, graph_.at(e).width}] = {
          e, {n.input, n.column, n.offset, summed}};
    };
    if (const auto* n = graph_.at(e).As<InputExpr>()) add(*n, false);
    if (const auto* n = graph_.at(e).As<SummedInputExpr>()) add(*n, true);
  }
  for (const auto& [key, input] : inputs) DeclareInput(input.first, input.second);
}

VariableId OperatorsBuilder::Weights(const StoredWeights& weights) {
  const auto [at, is_new] = weights_.try_emplace(weights, -1);
  if (is_new) {
    at->second = Declare(fmt::format("W{}.{}", weights.parameter.value(), weights.offset),
                         VariableKind::kConstant,
                         {weights.rows * weights.cols, ElementType::kFp32, weights});
  }
  return at->second;
}

VariableId OperatorsBuilder::Vector(const ParameterView& view, int32_t width) {
  return Weights({view.parameter, view.offset, 0, view.unit_stride, 1, width});
}

VariableId OperatorsBuilder::Write(std::string what, std::vector<VariableId> sources,
                                   OperatorVariable result, bool output) {
  const VariableId to =
      Declare(fmt::format("v{}", made_.problem.variables.size()),
              output ? VariableKind::kOutput : VariableKind::kValue, std::move(result));
  OperandBatch op = {std::move(what), {{to}}};
  for (const VariableId v : sources) op.operands.push_back({v});
  made_.problem.batches.push_back(std::move(op));
  return to;
}

VariableId OperatorsBuilder::Write(ExprId e, std::string what, std::vector<VariableId> sources,
                                   VariableSource from) {
  return Write(std::move(what), std::move(sources),
               {graph_.at(e).width, graph_.at(e).type, std::move(from)}, outputs_.contains(e));
}

std::vector<VariableId> OperatorsBuilder::Sources(const std::vector<ExprId>& args,
                                                  std::string& what) {
  std::vector<VariableId> sources;
  for (const ExprId a : args) {
    sources.push_back(Visit(a));
    if (IsConstant(sources.back())) what += fmt::format("_{}.weights", sources.size() - 1);
  }
  return sources;
}

VariableId OperatorsBuilder::VisitElementWise(ExprId e, const OpExpr& op) {
  ElementWiseOperator made = {op.op, {}};
  std::string what(Name(op.op));
  std::vector<ExprId> sources;
  for (const ExprId a : op.args) {
    const auto* const constant = graph_.at(a).As<ConstantExpr>();
    if (constant == nullptr) {
      made.args.emplace_back();
      sources.push_back(a);
    } else {
      what += fmt::format("_{}.{:x}", made.args.size(), constant->value.bits);
      made.args.emplace_back(constant->value);
    }
  }
  std::vector<VariableId> visited = Sources(sources, what);
  return Write(e, std::move(what), std::move(visited), std::move(made));
}

VariableId OperatorsBuilder::VisitJoined(const std::vector<ExprId>& pieces) {
  if (pieces.size() == 1) return Visit(pieces[0]);
  const auto there = joined_.find(pieces);
  if (there != joined_.end()) return there->second;
  std::string what = "concat";
  std::vector<VariableId> sources = Sources(pieces, what);
  int32_t width = 0;
  for (const ExprId piece : pieces) width += graph_.at(piece).width;
  return joined_[pieces] = Write(std::move(what), std::move(sources),
                                 {width, ElementType::kFp32, JoinOperator()}, false);
}

VariableId OperatorsBuilder::VisitProduct(ExprId e, const AccumulatorExpr& product) {
  std::vector<ExprId> pieces;
  int32_t depth = 0;
  for (const Term& term : product.terms) {
    pieces.push_back(term.x);
    depth += term.depth;
  }
  const VariableId row = VisitJoined(pieces);
  const ParameterView& w = product.terms[0].w;
  const VariableId weights =
      Weights({w.parameter, w.offset, w.depth_stride, w.unit_stride, depth, graph_.at(e).width});
  std::string what = IsConstant(row) ? "matmul_1.weights" : "matmul";
  return Write(e, std::move(what), {weights, row}, MatMulOperator());
}

VariableId OperatorsBuilder::VisitPlain(ExprId e, const PlainExpr& plain) {
  PlainStep step = {plain.kind, graph_.at(e).type, {},          plain.arg_shapes,
                    {},         plain.begin,       plain.shape, {}};
  std::string what = fmt::format("plain{}", static_cast<int>(plain.kind));
  std::vector<VariableId> sources;
  for (size_t a = 0; a < plain.args.size(); ++a) {
    const auto* const weights = graph_.at(plain.args[a]).As<ParameterExpr>();
    const Shape& shape = plain.arg_shapes[a];
    if (!plain.strides.empty()) step.strides.push_back(shape.cols);
    if (!plain.strides.empty() && weights != nullptr) {
      sources.push_back(Weights({weights->view.parameter, weights->view.offset, plain.strides[a], 1,
                                 shape.rows, shape.cols}));
      what += fmt::format("_{}.weights", a);
    } else {
      const std::vector<VariableId> visited = Sources({plain.args[a]}, what);
      sources.push_back(visited[0]);
    }
  }
  return Write(e, std::move(what), std::move(sources), PlainOperator{std::move(step)});
}

VariableId OperatorsBuilder::Visit(ExprId e) {
  if (variable_[static_cast<size_t>(e)] >= 0) return variable_[static_cast<size_t>(e)];
  const auto write = [&](std::string what, const std::vector<ExprId>& args, VariableSource from) {
    std::vector<VariableId> sources = Sources(args, what);
    return Write(e, std::move(what), std::move(sources), std::move(from));
  };
  const auto declared = [](const auto&) -> VariableId {
    CheckFailed("inputs are declared first", std::source_location::current());
  };
  const VariableId made = std::visit(
      Overloaded{[&](const InputExpr& n) { return declared(n); },
                 [&](const SummedInputExpr& n) { return declared(n); },
                 [&](const TableRowExpr& n) {
                   return write(fmt::format("lookup{}", n.lookup), {n.token},
                                LookupOperator{n.lookup, n.offset});
                 },
                 [&](const ParameterExpr& n) { return Vector(n.view, graph_.at(e).width); },
                 [&](const ConstantExpr& n) {
                   return write(fmt::format("constant_{:x}", n.value.bits), {},
                                FillOperator{n.value});
                 },
                 [&](const OpExpr& n) { return VisitElementWise(e, n); },
                 [&](const AccumulatorExpr& n) { return VisitProduct(e, n); },
                 [&](const ConcatExpr& n) { return write("concat", n.pieces, JoinOperator()); },
                 [&](const PlainExpr& n) { return VisitPlain(e, n); },
                 [&](const PartExpr& n) {
                   return write(fmt::format("part{}", n.offset), {n.whole}, PartOperator{n.offset});
                 }},
      graph_.at(e).node);
  return variable_[static_cast<size_t>(e)] = made;
}

}  // namespace

absl::StatusOr<CellOperators> OperatorsOfCell(const CellDefinition& cell, int32_t instances,
                                              const std::vector<std::string>& placed) {
  const absl::StatusOr<LaneGraph> graph = LaneGraph::BuildAsWritten(cell);
  if (!graph.ok()) return graph.status();
  return OperatorsBuilder(*graph, instances, placed).Take();
}

absl::StatusOr<LayoutProblem> OperatorProblem(const CellDefinition& cell, int32_t instances,
                                              const std::vector<std::string>& placed) {
  absl::StatusOr<CellOperators> operators = OperatorsOfCell(cell, instances, placed);
  if (!operators.ok()) return operators.status();
  return std::move(operators->problem);
}

}  // namespace cellbatch
