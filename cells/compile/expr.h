// What one value of a lane graph is: `width` lanes, computed from other values. Plain data; a kind is a struct, and
// whoever tells kinds apart visits all of them, so that a new one is a compile error where it is not handled.
#ifndef CELLBATCH_CELLS_COMPILE_EXPR_H_
#define CELLBATCH_CELLS_COMPILE_EXPR_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "cells/program/cell_program.h"

namespace cellbatch {

using ExprId = int32_t;
inline constexpr ExprId kNoExpr = -1;

// x . w, where w gives `width` lanes from `depth` elements.
struct Term {
  ExprId x = kNoExpr;
  int32_t depth = 0;
  ParameterView w;
  friend bool operator==(const Term&, const Term&) = default;
};

// Lanes of column `column` of a kOne input, from `offset` on.
struct InputExpr {
  int32_t input = 0, column = 0, offset = 0;
  friend bool operator==(const InputExpr&, const InputExpr&) = default;
};

// Likewise of a kSum input, summed.
struct SummedInputExpr {
  int32_t input = 0, column = 0, offset = 0;
  friend bool operator==(const SummedInputExpr&, const SummedInputExpr&) = default;
};

// Lanes of the row that a lookup's token chose, from `offset` on.
struct TableRowExpr {
  int32_t lookup = 0, offset = 0;
  ExprId token = kNoExpr;
  friend bool operator==(const TableRowExpr&, const TableRowExpr&) = default;
};

struct ParameterExpr {
  ParameterView view;
  friend bool operator==(const ParameterExpr&, const ParameterExpr&) = default;
};

struct ConstantExpr {
  Constant value;
  friend bool operator==(const ConstantExpr&, const ConstantExpr&) = default;
};

// An element-wise operator: one of kAdd to kLog.
struct OpExpr {
  TailOpKind op = TailOpKind::kAdd;
  std::vector<ExprId> args = {};
  friend bool operator==(const OpExpr&, const OpExpr&) = default;
};

struct AccumulatorExpr {
  std::vector<UnitValues> bias = {};
  std::vector<Term> terms = {};
  friend bool operator==(const AccumulatorExpr&, const AccumulatorExpr&) = default;
};

// The pieces one behind the other.
struct ConcatExpr {
  std::vector<ExprId> pieces = {};
  friend bool operator==(const ConcatExpr&, const ConcatExpr&) = default;
};

// What has a step of its own (PlainStep).
struct PlainExpr {
  PlainKind kind = PlainKind::kCopy;
  std::vector<ExprId> args = {};
  std::vector<Shape> arg_shapes = {};
  std::vector<int64_t> strides = {};  // products: between rows of args
  Shape shape = {};
  int32_t begin = 0;  // kSlice
  friend bool operator==(const PlainExpr&, const PlainExpr&) = default;
};

// Lanes of `whole`, which is stored, from `offset` on.
struct PartExpr {
  ExprId whole = kNoExpr;
  int32_t offset = 0;
  friend bool operator==(const PartExpr&, const PartExpr&) = default;
};

using ExprNode = std::variant<InputExpr, SummedInputExpr, TableRowExpr, ParameterExpr, ConstantExpr,
                              OpExpr, AccumulatorExpr, ConcatExpr, PlainExpr, PartExpr>;

struct Expr {
  ExprNode node;
  ElementType type = ElementType::kFp32;
  int32_t width = 1;
  int rank = 0;  // where it comes in a sum: table rows, inputs, what is computed, the carry
  friend bool operator==(const Expr&, const Expr&) = default;

  template <typename Node>
  const Node* As() const {
    return std::get_if<Node>(&node);
  }
  template <typename Node>
  bool Is() const {
    return std::holds_alternative<Node>(node);
  }
};

// One function out of several, for std::visit: a node without one is a compile error.
template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};

// Lies somewhere already, or is the same for every node: no step has to make it.
bool IsTrivial(const Expr& e);
// Computed by tails: can be made again wherever it is needed.
bool IsFoldable(const Expr& e);
// Calls `f` with each expression that a node reads, which it may replace.
void ForEachOperand(ExprNode& node, absl::FunctionRef<void(ExprId&)> f);
// A hash: equal expressions look alike.
uint64_t LookOf(const Expr& e);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_COMPILE_EXPR_H_
