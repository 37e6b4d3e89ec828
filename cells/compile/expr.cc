#include "cells/compile/expr.h"

namespace cellbatch {
namespace {

// Mixes numbers into a hash.
class Look {
 public:
  void Mix(int64_t v) {
    value_ = (value_ ^ static_cast<uint64_t>(v)) * 0x9e3779b97f4a7c15u;
    value_ ^= value_ >> 29;
  }
  void Mix(const std::vector<ExprId>& exprs) {
    for (const ExprId e : exprs) Mix(e);
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

}  // namespace

bool IsTrivial(const Expr& e) {
  return std::visit(
      Overloaded{
          [](const InputExpr&) { return true; }, [](const SummedInputExpr&) { return true; },
          [](const TableRowExpr&) { return true; }, [](const ParameterExpr&) { return true; },
          [](const ConstantExpr&) { return true; }, [](const OpExpr&) { return false; },
          [](const AccumulatorExpr&) { return false; }, [](const ConcatExpr&) { return false; },
          [](const PlainExpr&) { return false; }, [](const PartExpr&) { return true; }},
      e.node);
}

bool IsFoldable(const Expr& e) { return e.Is<OpExpr>() || e.Is<AccumulatorExpr>(); }

void ForEachOperand(ExprNode& node, absl::FunctionRef<void(ExprId&)> f) {
  const auto all = [&f](std::vector<ExprId>& exprs) {
    for (ExprId& e : exprs) f(e);
  };
  std::visit(
      Overloaded{[](InputExpr&) {}, [](SummedInputExpr&) {},
                 [&](TableRowExpr& n) { f(n.token); },  //
                 [](ParameterExpr&) {}, [](ConstantExpr&) {}, [&](OpExpr& n) { all(n.args); },
                 [&](AccumulatorExpr& n) {
                   for (Term& t : n.terms) f(t.x);
                 },
                 [&](ConcatExpr& n) { all(n.pieces); }, [&](PlainExpr& n) { all(n.args); },
                 [&](PartExpr& n) { f(n.whole); }},
      node);
}

uint64_t LookOf(const Expr& e) {
  Look look;
  look.Mix(static_cast<int64_t>(e.node.index()));
  look.Mix(e.width);
  const auto mix_column = [&look](const auto& column) {
    look.Mix(column.input);
    look.Mix(column.column);
    look.Mix(column.offset);
  };
  std::visit(Overloaded{[&](const InputExpr& n) { mix_column(n); },
                        [&](const SummedInputExpr& n) { mix_column(n); },
                        [&](const TableRowExpr& n) {
                          look.Mix({n.lookup, n.offset, n.token});
                        },
                        [&](const ParameterExpr& n) {
                          look.Mix(n.view.parameter.value());
                          look.Mix(n.view.offset);
                        },
                        [&](const ConstantExpr& n) { look.Mix(n.value.bits); },
                        [&](const OpExpr& n) {
                          look.Mix(static_cast<int64_t>(n.op));
                          look.Mix(n.args);
                        },
                        [&](const AccumulatorExpr& n) {
                          for (const Term& t : n.terms) look.Mix(t.x + (t.w.offset << 16));
                        },
                        [&](const ConcatExpr& n) { look.Mix(n.pieces); },
                        [&](const PlainExpr& n) {
                          look.Mix(static_cast<int64_t>(n.kind));
                          look.Mix(n.args);
                        },
                        [&](const PartExpr& n) {
                          look.Mix({n.whole, n.offset});
                        }},
             e.node);
  return look.value();
}

}  // namespace cellbatch
