// Sums gathered into accumulators, and what parameters alone make taken out: the second half of LaneGraph::Build.
#include <algorithm>
#include <set>
#include <utility>

#include "cells/compile/lane_graph.h"

namespace cellbatch {

namespace {

bool IsPlainBias(const Expr& e) { return e.Is<ParameterExpr>() || e.Is<ConstantExpr>(); }

}  // namespace

void LaneGraph::FindParameterValues() {
  for (const Op& op : cell_->ops()) {
    bool of_parameters = op.kind != OpKind::kInput;
    for (const ValueId arg : op.args) {
      if (arg.valid()) of_parameters &= of_parameters_[static_cast<size_t>(arg.value())];
    }
    of_parameters_.push_back(of_parameters);
  }
}

void LaneGraph::Gather() {
  CountUses();
  gathered_.assign(exprs_.size(), kNoExpr);
  for (ExprId& e : outputs_) e = Gathered(e);
  for (ExprId& e : tokens_) {
    if (!IsConstant(e)) e = Gathered(e);
  }
  // What is prepared is gathered in the same way, but there nothing is a parameter that is not one of the definition's.
  preparing_ = false;
  gathered_.assign(exprs_.size(), kNoExpr);
  uses_.resize(exprs_.size(), 1);
  for (ExprId& e : roots_) e = Gathered(e);
  for (ExprId& e : tokens_) {
    if (IsConstant(e)) e = Gathered(e);
  }
}

LaneGraph LaneGraph::AtLoad() const {
  LaneGraph graph = *this;
  graph.outputs_ = roots_;
  graph.roots_.clear();
  graph.prepared_.clear();
  return graph;
}

void LaneGraph::CountUsesOf(ExprId e, std::vector<bool>& seen) {
  ++uses_[static_cast<size_t>(e)];
  if (seen[static_cast<size_t>(e)]) return;
  seen[static_cast<size_t>(e)] = true;
  ExprNode node = at(e).node;
  ForEachOperand(node, [&](ExprId a) { CountUsesOf(a, seen); });
}

void LaneGraph::CountUses() {
  uses_.assign(exprs_.size(), 0);
  std::vector<bool> seen(exprs_.size(), false);
  for (const ExprId e : outputs_) CountUsesOf(e, seen);
  for (const ExprId e : roots_) CountUsesOf(e, seen);
}

// A tree of them: what doubles and doubles again is not walked.
bool LaneGraph::IsSumOfBiases(ExprId e) const {
  if (IsPlainBias(at(e))) return true;
  const auto* const op = at(e).As<OpExpr>();
  return op != nullptr && op->op == TailOpKind::kAdd &&
         std::all_of(op->args.begin(), op->args.end(), [this](ExprId a) {
           return IsPlainBias(at(a)) || (uses_[static_cast<size_t>(a)] == 1 && IsSumOfBiases(a));
         });
}

// Adds what `e` sums up to; false (with `gathering` half filled) if it is no sum of products and of what is constant.
bool LaneGraph::Collect(ExprId e, bool root, Gathering& gathering) {
  const Expr expr = at(e);  // a copy: there are more expressions in the end
  if (const auto* parameter = expr.As<ParameterExpr>()) {
    gathering.sum.bias.emplace_back(parameter->view);
    return true;
  }
  if (const auto* constant = expr.As<ConstantExpr>()) {
    gathering.sum.bias.emplace_back(constant->value);
    return true;
  }
  const bool prepare = preparing_ && IsConstant(e);
  if (prepare && !IsSumOfBiases(e)) {
    gathering.computed.push_back(e);
    return true;
  }
  // Others need it by itself.
  if (!root && !prepare && uses_[static_cast<size_t>(e)] > 1) return false;
  if (const auto* product = expr.As<AccumulatorExpr>()) {
    return CollectTerms(*product, expr.width, gathering);
  }
  const auto* const op = expr.As<OpExpr>();
  return op != nullptr && op->op == TailOpKind::kAdd && Collect(op->args[0], false, gathering) &&
         Collect(op->args[1], false, gathering);
}

// A product of parameters alone. One by a matrix that is computed at load itself reads it where that is computed.
ExprId LaneGraph::ConstantTerm(const Term& term, int32_t width) {
  const ParameterView& w = term.w;
  if (!IsPrepared(w, *cell_)) {
    return Intern({.node = AccumulatorExpr{.terms = {term}}, .width = width});
  }
  const bool by_rows = w.depth_stride == 1;
  const int64_t stride = by_rows ? w.unit_stride : w.depth_stride;
  const Shape shape = by_rows ? Shape{width, term.depth} : Shape{term.depth, width};
  const ExprId matrix =
      roots_[static_cast<size_t>(w.parameter.value()) - cell_->parameters().size()];
  const ExprId part = PartOf(matrix, static_cast<int32_t>(w.offset),
                             static_cast<int32_t>((shape.rows - 1) * stride + shape.cols));
  return Intern(
      {.node = PlainExpr{.kind = by_rows ? PlainKind::kMatMulByRows : PlainKind::kMatMulByColumns,
                         .args = {term.x, part},
                         .arg_shapes = {Shape::Vector(term.depth), shape},
                         .strides = {term.depth, stride},
                         .shape = Shape::Vector(width)},
       .width = width});
}

// Those of a product: pieces of its x may be parameters.
bool LaneGraph::CollectTerms(const AccumulatorExpr& product, int32_t width, Gathering& gathering) {
  for (const Term& term : product.terms) {
    if (preparing_ && IsConstant(term.x)) {
      gathering.computed.push_back(ConstantTerm(term, width));
    } else {
      gathering.sum.terms.push_back(term);
    }
  }
  return gathering.sum.terms.size() <= max_segments_;
}

// The same expression with sums gathered into accumulators; what is constant is a parameter, while that is prepared.
ExprId LaneGraph::Gathered(ExprId e) {
  if (gathered_[static_cast<size_t>(e)] != kNoExpr) return gathered_[static_cast<size_t>(e)];
  const ExprId result = MakeGathered(e);
  gathered_[static_cast<size_t>(e)] = result;
  return result;
}

ExprId LaneGraph::MakeGathered(ExprId e) {
  Expr made = at(e);
  if (preparing_ && IsConstant(e) && !IsPlainBias(made)) {
    return Intern({.node = ParameterExpr{Prepared(e)}, .type = made.type, .width = made.width});
  }
  Gathering gathering;
  if (Collect(e, true, gathering) && !gathering.sum.terms.empty()) {
    if (!gathering.computed.empty()) {
      gathering.sum.bias = {PreparedBias(gathering, made.width)};
    }
    made = {.node = std::move(gathering.sum), .width = made.width, .rank = made.rank};
  }
  ForEachOperand(made.node, [this](ExprId& a) { a = Gathered(a); });
  if (auto* const gathered = std::get_if<AccumulatorExpr>(&made.node)) {
    std::stable_sort(gathered->terms.begin(), gathered->terms.end(),
                     [this](const Term& a, const Term& b) { return at(a.x).rank < at(b.x).rank; });
  }
  return Intern(std::move(made));
}

// Where `e` will lie, which somebody reads and nodes do not compute.
ParameterView LaneGraph::Prepared(ExprId e) {
  if (const auto* const part = at(e).As<PartExpr>()) {
    ParameterView view = Prepared(part->whole);
    view.offset += part->offset;
    return view;
  }
  if (const auto* const parameter = at(e).As<ParameterExpr>()) return parameter->view;
  const auto [there, is_new] = number_of_.emplace(e, static_cast<int32_t>(roots_.size()));
  if (is_new) {
    roots_.push_back(e);
    prepared_.push_back({at(e).width, at(e).type, ParametersOf(e)});
  }
  return {ParameterId(static_cast<int64_t>(cell_->parameters().size()) + there->second)};
}

// One vector of all that a sum starts with: the biases, then what is computed of parameters.
ParameterView LaneGraph::PreparedBias(const Gathering& gathering, int32_t width) {
  std::vector<ExprId> terms;
  for (const UnitValues& bias : gathering.sum.bias) {
    const auto* const constant = std::get_if<Constant>(&bias);
    terms.push_back(
        constant != nullptr
            ? Intern({.node = ConstantExpr{*constant}, .width = width})
            : Intern({.node = ParameterExpr{std::get<ParameterView>(bias)}, .width = width}));
  }
  terms.insert(terms.end(), gathering.computed.begin(), gathering.computed.end());
  ExprId all = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    all = Intern({.node = OpExpr{TailOpKind::kAdd, {all, terms[i]}}, .width = width});
  }
  return Prepared(all);
}

std::vector<ParameterId> LaneGraph::ParametersOf(ExprId root) const {
  std::set<ParameterId> found;
  std::set<ExprId> seen;
  std::vector<ExprId> left = {root};
  while (!left.empty()) {
    const ExprId e = left.back();
    left.pop_back();
    if (!seen.insert(e).second) continue;
    ExprNode node = at(e).node;
    if (const auto* const parameter = std::get_if<ParameterExpr>(&node)) {
      found.insert(parameter->view.parameter);
    } else if (const auto* const row = std::get_if<TableRowExpr>(&node)) {
      found.insert(lookups_[static_cast<size_t>(row->lookup)].table);
    } else if (const auto* const sum = std::get_if<AccumulatorExpr>(&node)) {
      for (const Term& t : sum->terms) found.insert(t.w.parameter);
    }
    ForEachOperand(node, [&](ExprId a) { left.push_back(a); });
  }
  return {found.begin(), found.end()};
}

}  // namespace cellbatch
