#include "cells/compile/expr_placement.h"

#include <algorithm>

#include "cells/check.h"

namespace cellbatch {

ExprPlacement::ExprPlacement(const LaneGraph& graph, const std::vector<bool>& cut,
                             int scratch_alignment)
    : graph_(graph),
      cut_(cut),
      scratch_alignment_(scratch_alignment),
      level_(graph.exprs().size(), -1),
      destinations_(graph.exprs().size()),
      visited_(graph.exprs().size(), false) {
  // Columns first: what is an output is kept there and needs no scratch.
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    StoreAt(graph.outputs()[i], {PlaceKind::kOutput, static_cast<int32_t>(i), 0, 0});
  }
  for (const ExprId e : graph.outputs()) Visit(e);
}

int ExprPlacement::Level(ExprId e) const {
  int& level = level_[static_cast<size_t>(e)];
  if (level < 0) level = ComputeLevel(e);
  return level;
}

int ExprPlacement::ComputeLevel(ExprId e) const {
  const Expr& expr = graph_.at(e);
  int level = 0;
  for (const ExprId a : expr.args) {
    if (expr.kind == ExprKind::kOp) {
      level = std::max(level, OperandLevel(a));
    } else if (expr.kind == ExprKind::kConcat) {
      level = std::max(level, Level(a));  // the pieces are stored where they belong
    } else {
      level = std::max(level, SourceLevel(a));
    }
  }
  for (const Term& t : expr.terms) level = std::max(level, SourceLevel(t.x));
  return level;
}

int ExprPlacement::OperandLevel(ExprId e) const {
  const ExprKind kind = graph_.at(e).kind;
  const bool foldable = kind == ExprKind::kOp || kind == ExprKind::kAccumulator;
  if (graph_.at(e).is_trivial() || (foldable && !cut_[static_cast<size_t>(e)])) return Level(e);
  return Level(e) + 1;
}

int ExprPlacement::SourceLevel(ExprId e) const {
  const bool lies = graph_.at(e).is_trivial() && graph_.at(e).kind != ExprKind::kConstant;
  return lies ? Level(e) : Level(e) + 1;
}

bool ExprPlacement::IsInline(ExprId reader, ExprId e) const {
  const ExprKind kind = graph_.at(e).kind;
  return (kind == ExprKind::kOp || kind == ExprKind::kAccumulator) &&
         !cut_[static_cast<size_t>(e)] && Level(e) == Level(reader);
}

Place ExprPlacement::NewScratch(int32_t width) {
  const Place place = {PlaceKind::kScratch, 0, 0, scratch_width_};
  scratch_width_ += (width + scratch_alignment_ - 1) / scratch_alignment_ * scratch_alignment_;
  return place;
}

void ExprPlacement::StoreAt(ExprId e, Place place) {
  if (!IsRoot(e)) roots_.push_back(e);
  destinations_[static_cast<size_t>(e)].push_back(place);
}

void ExprPlacement::Need(ExprId e) {
  if (!graph_.at(e).is_trivial() && !IsRoot(e)) StoreAt(e, NewScratch(graph_.at(e).width));
  Visit(e);
}

void ExprPlacement::NeedSource(ExprId e) {
  if (graph_.at(e).kind == ExprKind::kConstant && !IsRoot(e)) {
    StoreAt(e, NewScratch(graph_.at(e).width));
  }
  Need(e);
}

void ExprPlacement::Visit(ExprId e) {
  if (visited_[static_cast<size_t>(e)]) return;
  visited_[static_cast<size_t>(e)] = true;
  const Expr& expr = graph_.at(e);
  if (expr.is_trivial()) {
    VisitTrivial(e);
  } else if (expr.kind == ExprKind::kConcat) {
    VisitConcat(e);
  } else if (expr.kind == ExprKind::kPlain) {
    for (const ExprId a : expr.args) NeedSource(a);
  } else {
    VisitInline(e);
  }
}

void ExprPlacement::VisitTrivial(ExprId e) {
  const Expr& expr = graph_.at(e);
  if (expr.kind == ExprKind::kTableRow) {
    NeedSource(expr.args[0]);
    const bool known = std::any_of(table_rows_.begin(), table_rows_.end(), [&](ExprId other) {
      return graph_.at(other).place.index == expr.place.index;
    });
    if (!known) table_rows_.push_back(e);
  } else if (expr.kind == ExprKind::kPart) {
    Need(expr.args[0]);
  } else if (expr.kind == ExprKind::kSummedInput) {
    const bool known = std::any_of(sums_.begin(), sums_.end(), [&](const SumStep& s) {
      return s.input.value() == expr.place.index && s.column == expr.place.column;
    });
    if (known) return;
    const Input& input = graph_.cell().inputs()[static_cast<size_t>(expr.place.index)];
    const int32_t width = input.reads[static_cast<size_t>(expr.place.column)].width;
    // A sum that is an output is made there.
    const Place to = IsRoot(e) && expr.width == width ? Destinations(e).front() : NewScratch(width);
    sums_.push_back({InputId(expr.place.index), expr.place.column, width, to});
  }
}

// An element-wise operator or a sum of products: operands of the same level are recomputed in its tail.
void ExprPlacement::VisitInline(ExprId e) {
  const Expr& expr = graph_.at(e);
  for (const ExprId a : expr.args) IsInline(e, a) ? Visit(a) : Need(a);
  for (const Term& t : expr.terms) NeedSource(t.x);
}

void ExprPlacement::VisitConcat(ExprId e) {
  Place at = Destinations(e).front();
  for (const ExprId a : graph_.at(e).args) {
    StoreAt(a, at);
    at.offset += graph_.at(a).width;
    Visit(a);
  }
}

Place ExprPlacement::PlaceOf(ExprId e) const {
  const Expr& expr = graph_.at(e);
  if (expr.kind == ExprKind::kInput || expr.kind == ExprKind::kTableRow) return expr.place;
  if (expr.kind == ExprKind::kParameter) {
    return {PlaceKind::kParameter, expr.view.parameter.value(), 0, expr.view.offset};
  }
  if (expr.kind == ExprKind::kPart) {
    Place place = PlaceOf(expr.args[0]);
    place.offset += expr.place.offset;
    return place;
  }
  if (expr.kind == ExprKind::kSummedInput) {
    for (const SumStep& s : sums_) {
      if (s.input.value() != expr.place.index || s.column != expr.place.column) continue;
      Place place = s.to;
      place.offset += expr.place.offset;
      return place;
    }
  }
  Check(IsRoot(e), "an expression that is read is stored somewhere");
  return Destinations(e).front();
}

}  // namespace cellbatch
