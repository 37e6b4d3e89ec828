#include "cells/compile/expr_placement.h"

#include <algorithm>

#include "cells/check.h"

namespace cellbatch {

ExprPlacement::ExprPlacement(const LaneGraph& graph, const std::vector<bool>& cut, bool scalars)
    : graph_(graph),
      cut_(cut),
      scalars_(scalars),
      level_(graph.exprs().size(), -1),
      readers_(graph.exprs().size(), 0),
      may_wait_(graph.exprs().size(), Wait::kUnknown),
      destinations_(graph.exprs().size()),
      visited_(graph.exprs().size(), false) {
  CountReaders();
  // Columns first: what is an output is kept there and needs no scratch.
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    StoreAt(graph.outputs()[i], {PlaceKind::kOutput, static_cast<int32_t>(i), 0, 0});
  }
  for (const ExprId e : graph.outputs()) Visit(e);
}

// Of what outputs need: a sum that was gathered (lane_graph.h) leaves behind what it was written as, which nobody makes.
void ExprPlacement::CountReaders() {
  std::vector<ExprId> left = graph_.outputs();
  std::vector<bool> seen(readers_.size(), false);
  while (!left.empty()) {
    const auto e = static_cast<size_t>(left.back());
    left.pop_back();
    ++readers_[e];
    if (seen[e]) continue;
    seen[e] = true;
    ExprNode node = graph_.exprs()[e].node;
    ForEachOperand(node, [&left](ExprId& a) { left.push_back(a); });
  }
}

int ExprPlacement::Level(ExprId e) const {
  int& level = level_[static_cast<size_t>(e)];
  if (level < 0) level = ComputeLevel(e);
  return level;
}

int ExprPlacement::ComputeLevel(ExprId e) const {
  int level = 0;
  const auto source = [&](ExprId a) { level = std::max(level, SourceLevel(a)); };
  std::visit(Overloaded{[](const InputExpr&) {}, [](const SummedInputExpr&) {},
                        [&](const TableRowExpr& n) { source(n.token); },  //
                        [](const ParameterExpr&) {}, [](const ConstantExpr&) {},
                        [&](const OpExpr& n) {
                          for (const ExprId a : n.args) level = std::max(level, OperandLevel(a));
                        },
                        [&](const AccumulatorExpr& n) {
                          for (const Term& t : n.terms) source(t.x);
                        },
                        [&](const ConcatExpr& n) {  // the pieces are stored where they belong
                          for (const ExprId a : n.pieces) level = std::max(level, Level(a));
                        },
                        [&](const PlainExpr& n) {
                          for (const ExprId a : n.args) source(a);
                        },
                        [&](const PartExpr& n) { source(n.whole); }},
             graph_.at(e).node);
  return level;
}

int ExprPlacement::OperandLevel(ExprId e) const {
  const Expr& expr = graph_.at(e);
  const bool at_once = IsTrivial(expr) || (IsFoldable(expr) && !cut_[static_cast<size_t>(e)]);
  return at_once || NumberOf(e) != kNoExpr ? Level(e) : Level(e) + 1;
}

int ExprPlacement::SourceLevel(ExprId e) const {
  const bool lies = IsTrivial(graph_.at(e)) && !graph_.at(e).Is<ConstantExpr>();
  return lies ? Level(e) : Level(e) + 1;
}

bool ExprPlacement::IsInline(ExprId reader, ExprId e) const {
  if (NumberOf(e) != kNoExpr) return true;
  if (!IsFoldable(graph_.at(e)) || cut_[static_cast<size_t>(e)]) return false;
  return Level(e) == Level(reader) || IsLessANumber(e) || MayWait(e);
}

bool ExprPlacement::MayWait(ExprId e) const {
  Wait& known = may_wait_[static_cast<size_t>(e)];
  if (known == Wait::kUnknown) known = ComputeMayWait(e) ? Wait::kMay : Wait::kMayNot;
  return known == Wait::kMay;
}

bool ExprPlacement::ComputeMayWait(ExprId e) const {
  const auto* const op = graph_.at(e).As<OpExpr>();
  if (op == nullptr || cut_[static_cast<size_t>(e)] || readers_[static_cast<size_t>(e)] != 1) {
    return false;
  }
  return std::all_of(op->args.begin(), op->args.end(), [&](ExprId a) {
    const bool lies = IsTrivial(graph_.at(a)) || NumberOf(a) != kNoExpr || !IsInline(e, a);
    return lies || IsLessANumber(a) || MayWait(a);
  });
}

ExprId ExprPlacement::NumberOf(ExprId e) const {
  const auto* const plain = graph_.at(e).As<PlainExpr>();
  if (!scalars_ || plain == nullptr || plain->kind != PlainKind::kBroadcast) return kNoExpr;
  return cut_[static_cast<size_t>(e)] ? kNoExpr : plain->args[0];
}

// What is above a mean, say: of two operands that lie somewhere when it can be computed, one operation.
bool ExprPlacement::IsLessANumber(ExprId e) const {
  const auto* const op = graph_.at(e).As<OpExpr>();
  if (op == nullptr || op->op != TailOpKind::kSub || NumberOf(op->args[1]) == kNoExpr) return false;
  return IsTrivial(graph_.at(op->args[0])) || !IsInline(e, op->args[0]);
}

Place ExprPlacement::NewScratch(int32_t width) {
  scratch_.push_back(width);
  return {PlaceKind::kScratch, static_cast<int32_t>(scratch_.size()) - 1, 0, 0};
}

void ExprPlacement::StoreAt(ExprId e, Place place) {
  if (!IsRoot(e)) roots_.push_back(e);
  destinations_[static_cast<size_t>(e)].push_back(place);
}

void ExprPlacement::Need(ExprId e) {
  if (!IsTrivial(graph_.at(e)) && !IsRoot(e)) StoreAt(e, NewScratch(graph_.at(e).width));
  Visit(e);
}

void ExprPlacement::NeedSource(ExprId e) {
  if (graph_.at(e).Is<ConstantExpr>() && !IsRoot(e)) {
    StoreAt(e, NewScratch(graph_.at(e).width));
  }
  Need(e);
}

void ExprPlacement::Visit(ExprId e) {
  if (visited_[static_cast<size_t>(e)]) return;
  visited_[static_cast<size_t>(e)] = true;
  std::visit(Overloaded{[](const InputExpr&) {}, [&](const SummedInputExpr& n) { VisitSum(e, n); },
                        [&](const TableRowExpr& n) { VisitTableRow(e, n); },  //
                        [](const ParameterExpr&) {}, [](const ConstantExpr&) {},
                        [&](const OpExpr& n) {  // operands of the same level are made in its tail
                          for (const ExprId a : n.args) IsInline(e, a) ? Visit(a) : Need(a);
                        },
                        [&](const AccumulatorExpr& n) {
                          for (const Term& t : n.terms) NeedSource(t.x);
                        },
                        [&](const ConcatExpr& n) { VisitConcat(e, n); },
                        [&](const PlainExpr& n) {
                          for (const ExprId a : n.args) NeedSource(a);
                        },
                        [&](const PartExpr& n) { Need(n.whole); }},
             graph_.at(e).node);
}

void ExprPlacement::VisitTableRow(ExprId e, const TableRowExpr& row) {
  NeedSource(row.token);
  const bool known = std::any_of(table_rows_.begin(), table_rows_.end(), [&](ExprId other) {
    return graph_.at(other).As<TableRowExpr>()->lookup == row.lookup;
  });
  if (!known) table_rows_.push_back(e);
}

const SumStep* ExprPlacement::SumOf(const SummedInputExpr& column) const {
  const auto there = std::find_if(sums_.begin(), sums_.end(), [&](const SumStep& s) {
    return s.input.value() == column.input && s.column == column.column;
  });
  return there == sums_.end() ? nullptr : &*there;
}

void ExprPlacement::VisitSum(ExprId e, const SummedInputExpr& column) {
  if (SumOf(column) != nullptr) return;
  const Input& input = graph_.cell().inputs()[static_cast<size_t>(column.input)];
  const int32_t width = input.reads[static_cast<size_t>(column.column)].width;
  // A sum that is an output is made there.
  const bool is_output = IsRoot(e) && graph_.at(e).width == width;
  const Place to = is_output ? Destinations(e).front() : NewScratch(width);
  sums_.push_back({InputId(column.input), column.column, width, to});
}

void ExprPlacement::VisitConcat(ExprId e, const ConcatExpr& concat) {
  Place at = Destinations(e).front();
  for (const ExprId a : concat.pieces) {
    StoreAt(a, at);
    at.offset += graph_.at(a).width;
    Visit(a);
  }
}

Place ExprPlacement::HomeOf(ExprId e) const {
  Check(IsRoot(e), "an expression that is read is stored somewhere");
  return Destinations(e).front();
}

Place ExprPlacement::PlaceOf(ExprId e) const {
  const auto behind = [](Place place, int32_t offset) {
    place.offset += offset;
    return place;
  };
  const auto home = [&](const auto&) { return HomeOf(e); };
  return std::visit(
      Overloaded{
          [](const InputExpr& n) {
            return Place{PlaceKind::kInput, n.input, n.column, n.offset};
          },
          [&](const SummedInputExpr& n) {
            const SumStep* const sum = SumOf(n);
            return sum != nullptr ? behind(sum->to, n.offset) : HomeOf(e);
          },
          [](const TableRowExpr& n) {
            return Place{PlaceKind::kTableRow, n.lookup, 0, n.offset};
          },
          [](const ParameterExpr& n) {
            return Place{PlaceKind::kParameter, n.view.parameter.value(), 0, n.view.offset};
          },
          [&](const ConstantExpr& n) { return home(n); }, [&](const OpExpr& n) { return home(n); },
          [&](const AccumulatorExpr& n) { return home(n); },
          [&](const ConcatExpr& n) { return home(n); }, [&](const PlainExpr& n) { return home(n); },
          [&](const PartExpr& n) { return behind(PlaceOf(n.whole), n.offset); }},
      graph_.at(e).node);
}

}  // namespace cellbatch
