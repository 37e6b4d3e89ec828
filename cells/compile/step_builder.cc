#include "cells/compile/step_builder.h"

#include <algorithm>
#include <source_location>
#include <utility>

#include "cells/check.h"

namespace cellbatch {
int16_t StepBuilder::Append(TailOp op) {
  step_.tail.ops.push_back(op);
  return static_cast<int16_t>(step_.tail.ops.size() - 1);
}

int16_t StepBuilder::ParameterIndex(const ParameterView& view) {
  const auto there = std::find(step_.parameters.begin(), step_.parameters.end(), view);
  const auto index = static_cast<int16_t>(there - step_.parameters.begin());
  if (there == step_.parameters.end()) step_.parameters.push_back(view);
  return index;
}

int16_t StepBuilder::ColumnIndex(Place place) {
  const auto there = std::find(step_.columns.begin(), step_.columns.end(), place);
  const auto index = static_cast<int16_t>(there - step_.columns.begin());
  if (there == step_.columns.end()) step_.columns.push_back(place);
  return index;
}

int16_t StepBuilder::Load(ExprId e) {
  return Append({.kind = TailOpKind::kColumn, .index = ColumnIndex(placement_.PlaceOf(e))});
}

int16_t StepBuilder::Operand(ExprId reader, ExprId e) {
  if (const auto made = made_.find(e); made != made_.end()) return made->second;
  const Expr& expr = graph_.at(e);
  const bool compute =
      expr.Is<ParameterExpr>() || expr.Is<ConstantExpr>() || placement_.IsInline(reader, e);
  const int16_t value = compute ? Compute(e) : Load(e);
  made_[e] = value;
  return value;
}

int16_t StepBuilder::Compute(ExprId e) {
  if (const auto made = made_.find(e); made != made_.end()) return made->second;
  const auto not_by_a_tail = [](const auto&) -> TailOp {
    CheckFailed("tails compute what is element-wise", std::source_location::current());
  };
  const TailOp op = std::visit(
      Overloaded{[&](const ParameterExpr& n) {
                   return TailOp{.kind = TailOpKind::kParameter, .index = ParameterIndex(n.view)};
                 },
                 [](const ConstantExpr& n) {
                   return TailOp{.kind = TailOpKind::kConstant, .constant = n.value.value()};
                 },
                 [&](const AccumulatorExpr&) {
                   groups_.push_back(e);
                   return TailOp{.kind = TailOpKind::kAccumulator,
                                 .index = static_cast<int16_t>(groups_.size() - 1)};
                 },
                 [&](const OpExpr& n) {
                   TailOp made = {.kind = n.op};
                   made.a = Operand(e, n.args[0]);
                   if (n.args.size() > 1) made.b = Operand(e, n.args[1]);
                   return made;
                 },
                 [&](const InputExpr& n) { return not_by_a_tail(n); },
                 [&](const SummedInputExpr& n) { return not_by_a_tail(n); },
                 [&](const TableRowExpr& n) { return not_by_a_tail(n); },
                 [&](const ConcatExpr& n) { return not_by_a_tail(n); },
                 [&](const PlainExpr& n) {
                   const ExprId number = placement_.NumberOf(e);
                   if (number == kNoExpr) return not_by_a_tail(n);
                   return TailOp{.kind = TailOpKind::kScalar,
                                 .index = ColumnIndex(placement_.PlaceOf(number))};
                 },
                 [&](const PartExpr& n) { return not_by_a_tail(n); }},
      graph_.at(e).node);
  return made_[e] = Append(op);
}

void StepBuilder::AddToSegments(size_t group, const Term& term) {
  const Place source = placement_.PlaceOf(term.x);
  for (SegmentPlan& s : step_.segments) {
    if (s.source != source || s.depth != term.depth || s.weights[group].has_value()) continue;
    s.weights[group] = term.w;
    return;
  }
  step_.segments.push_back({source, term.depth, {}});
  step_.segments.back().weights.resize(groups_.size());
  step_.segments.back().weights[group] = term.w;
}

// Terms by rank, so that every accumulator runs bias, table row, input, recurrent part.
void StepBuilder::BuildSegments() {
  std::vector<std::pair<size_t, const Term*>> terms;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const AccumulatorExpr& sum = *graph_.at(groups_[g]).As<AccumulatorExpr>();
    step_.bias.push_back(sum.bias);
    for (const Term& t : sum.terms) terms.emplace_back(g, &t);
  }
  std::stable_sort(terms.begin(), terms.end(), [this](const auto& a, const auto& b) {
    return graph_.at(a.second->x).rank < graph_.at(b.second->x).rank;
  });
  for (const auto& [group, term] : terms) AddToSegments(group, *term);
}

// Segments aside, which are only known once the tail is. What is prepared takes the room that it would take if each node
// computed it and a tail loaded it (at_each_node.h): so the steps are the same whether it is or not.
bool StepBuilder::Fits() const {
  const auto prepared = static_cast<size_t>(
      std::count_if(step_.parameters.begin(), step_.parameters.end(),
                    [this](const ParameterView& view) { return IsPrepared(view, graph_.cell()); }));
  return groups_.size() <= static_cast<size_t>(limits_.groups) &&
         step_.tail.ops.size() + prepared <= static_cast<size_t>(limits_.tail_ops) &&
         step_.columns.size() + prepared <= static_cast<size_t>(limits_.tail_columns);
}

std::optional<ProductStep> StepBuilder::Build(absl::Span<const ExprId> roots) {
  step_ = ProductStep();
  made_.clear();
  groups_.clear();
  step_.units = graph_.at(roots[0]).width;
  std::vector<std::pair<int16_t, Place>> stores;
  for (const ExprId e : roots) {
    const int16_t value = Compute(e);
    for (const Place& to : placement_.Destinations(e)) stores.emplace_back(value, to);
  }
  for (const auto& [value, to] : stores) {
    step_.columns.push_back(to);
    const auto column = static_cast<int16_t>(step_.columns.size() - 1);
    Append({.kind = TailOpKind::kStore, .a = value, .index = column});
  }
  if (!Fits()) return std::nullopt;
  BuildSegments();
  if (step_.segments.size() > static_cast<size_t>(limits_.segments)) return std::nullopt;
  step_.tail.num_columns = static_cast<int>(step_.columns.size());
  step_.tail.num_parameters = static_cast<int>(step_.parameters.size());
  return std::move(step_);
}

}  // namespace cellbatch
