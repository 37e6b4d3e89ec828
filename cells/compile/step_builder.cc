#include "cells/compile/step_builder.h"

#include <algorithm>
#include <utility>

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
  const ExprKind kind = graph_.at(e).kind;
  const bool compute =
      kind == ExprKind::kParameter || kind == ExprKind::kConstant || placement_.IsInline(reader, e);
  const int16_t value = compute ? Compute(e) : Load(e);
  made_[e] = value;
  return value;
}

int16_t StepBuilder::Compute(ExprId e) {
  if (const auto made = made_.find(e); made != made_.end()) return made->second;
  const Expr& expr = graph_.at(e);
  TailOp op;
  if (expr.kind == ExprKind::kParameter) {
    op = {.kind = TailOpKind::kParameter, .index = ParameterIndex(expr.view)};
  } else if (expr.kind == ExprKind::kConstant) {
    op = {.kind = TailOpKind::kConstant, .constant = expr.constant.value()};
  } else if (expr.kind == ExprKind::kAccumulator) {
    op = {.kind = TailOpKind::kAccumulator, .index = static_cast<int16_t>(groups_.size())};
    groups_.push_back(e);
  } else {
    op.kind = expr.op;
    op.a = Operand(e, expr.args[0]);
    if (expr.args.size() > 1) op.b = Operand(e, expr.args[1]);
  }
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
    step_.bias.push_back(graph_.at(groups_[g]).bias);
    for (const Term& t : graph_.at(groups_[g]).terms) terms.emplace_back(g, &t);
  }
  std::stable_sort(terms.begin(), terms.end(), [this](const auto& a, const auto& b) {
    return graph_.at(a.second->x).rank < graph_.at(b.second->x).rank;
  });
  for (const auto& [group, term] : terms) AddToSegments(group, *term);
}

// Segments aside, which are only known once the tail is.
bool StepBuilder::Fits() const {
  return groups_.size() <= static_cast<size_t>(limits_.groups) &&
         step_.tail.ops.size() <= static_cast<size_t>(limits_.tail_ops) &&
         step_.columns.size() <= static_cast<size_t>(limits_.tail_columns);
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
