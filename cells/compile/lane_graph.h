// A definition seen lane by lane: slices and concatenations are gone, pushed down to where the numbers come from.
//
//   Slice(Add(MatMul(x, W), b), H, 2H)   ==>   Add(MatMul(x, W[H .. 2H]), b[H .. 2H])
//
// so the four gates of a stacked LSTM and of one written gate by gate are the same expressions: `width` lanes each,
// lane u of a result depending on lane u of the operands. Equal expressions are one node. Sums of products and
// parameters are gathered into accumulators:
//
//   Add(Add(MatMul(x, W), b), MatMul(h, U))   ==>   Accumulator{bias b; terms x.W, h.U}
//
// the x operands of products may be anything; the step that computes them comes first (lower.cc).
#ifndef CELLBATCH_CELLS_COMPILE_LANE_GRAPH_H_
#define CELLBATCH_CELLS_COMPILE_LANE_GRAPH_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/cell_definition.h"
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

class LaneGraph {
 public:
  // UNIMPLEMENTED, naming the op, for what no step can express. `max_segments`: the most terms one sum may have.
  static absl::StatusOr<LaneGraph> Build(const CellDefinition& cell, int max_segments);

  const CellDefinition& cell() const { return *cell_; }
  const std::vector<Expr>& exprs() const { return exprs_; }
  const Expr& at(ExprId e) const { return exprs_[static_cast<size_t>(e)]; }
  const std::vector<ExprId>& outputs() const { return outputs_; }       // by output column
  const std::vector<LookupSpec>& lookups() const { return lookups_; }   // token places unset
  const std::vector<ExprId>& lookup_tokens() const { return tokens_; }  // by lookup

 private:
  LaneGraph(const CellDefinition& cell, int max_segments)
      : cell_(&cell),
        max_segments_(static_cast<size_t>(max_segments)),
        stored_(cell.ops().size()) {}

  // Lanes [begin, begin + width) of a value, row-major.
  ExprId View(ValueId v, int32_t begin, int32_t width);
  ExprId MakeView(ValueId v, int32_t begin, int32_t width);
  ExprId Whole(ValueId v) { return View(v, 0, static_cast<int32_t>(cell_->op(v).shape.size())); }
  ExprId ViewInput(const Op& op, int32_t begin, int32_t width);
  ExprId ViewLookup(ValueId v, int32_t begin, int32_t width);
  ExprId ViewElementwise(const Op& op, TailOpKind tail, int32_t begin, int32_t width);
  ExprId ViewOperand(const Op& op, size_t which, int32_t begin, int32_t width);
  ExprId ViewConcat(const Op& op, int32_t begin, int32_t width);
  ExprId ViewMatMul(ValueId v, int32_t begin, int32_t width);
  ExprId ViewPlain(ValueId v, PlainKind kind, int32_t begin, int32_t width);
  ExprId ViewPlain(PlainExpr whole, ElementType type, int32_t begin, int32_t width);
  ExprId PartOf(ExprId whole, int32_t begin, int32_t width);
  ExprId ViewComputedMatMul(ValueId v, int32_t begin, int32_t width);
  bool Factor(ValueId v, bool may_turn, PlainExpr& product);
  void AddTerms(ValueId x, int32_t begin, int32_t depth, ParameterView w, std::vector<Term>& terms);
  bool MatrixOf(ValueId v, ParameterView& view) const;
  ExprId Intern(Expr e);
  void CountUses();
  void CountUsesOf(ExprId e, std::vector<bool>& seen);
  ExprId Gathered(ExprId e);
  bool Collect(ExprId e, bool root, AccumulatorExpr& sum);

  const CellDefinition* cell_;
  size_t max_segments_;
  std::vector<bool>
      stored_;  // by value: a reduction reads it whole, and so may whoever wants a part
  std::vector<Expr> exprs_;
  std::unordered_map<uint64_t, std::vector<ExprId>> alike_;
  std::vector<int> uses_;
  std::vector<ExprId> gathered_;  // by expression before gathering
  std::vector<ExprId> outputs_;
  std::vector<LookupSpec> lookups_;
  std::vector<ExprId> tokens_;
  std::map<std::tuple<int32_t, int32_t, int32_t>, ExprId> views_;  // by value, begin, width
  std::map<int32_t, int32_t> lookup_of_;                           // by value
  absl::Status status_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_COMPILE_LANE_GRAPH_H_
