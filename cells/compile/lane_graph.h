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
// the x operands of products may be anything; the step that computes them comes first (skeleton.cc).
//
// What parameters and constants alone make is the same for every node, and so is computed once, at load: to whoever reads
// it, it is one more parameter, behind the definition's own.
//
//   Mul(before.h, Exp(decay))   ==>   Mul(before.h, p)      prepared p = Exp(decay), a root of the graph AtLoad()
//
// Slices of parameters and sums of biases stay what they are: they cost nothing. Accumulators start from what is prepared
// (p . W + b + x . U goes on from one vector), and matrices that are prepared are weights.
#ifndef CELLBATCH_CELLS_COMPILE_LANE_GRAPH_H_
#define CELLBATCH_CELLS_COMPILE_LANE_GRAPH_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/cell_definition.h"
#include "cells/compile/expr.h"
#include "cells/program/cell_program.h"

namespace cellbatch {

class LaneGraph {
 public:
  // UNIMPLEMENTED, naming the op, for what no step can express. Of what the device that will run it can do, it matters how
  // many terms one sum may have, and whether it sums squares.
  static absl::StatusOr<LaneGraph> Build(const CellDefinition& cell, const ProgramLimits& limits);
  // The same with sums left as they are written: each product is an accumulator by itself.
  static absl::StatusOr<LaneGraph> BuildAsWritten(const CellDefinition& cell);

  const CellDefinition& cell() const { return *cell_; }
  const std::vector<Expr>& exprs() const { return exprs_; }
  const Expr& at(ExprId e) const { return exprs_[static_cast<size_t>(e)]; }
  const std::vector<ExprId>& outputs() const { return outputs_; }       // by output column
  const std::vector<LookupSpec>& lookups() const { return lookups_; }   // token places unset
  const std::vector<ExprId>& lookup_tokens() const { return tokens_; }  // by lookup

  // What is computed at load: number i is parameter `cell().parameters().size() + i` to this graph, and output i of the
  // graph that computes it.
  const std::vector<PreparedParameter>& prepared() const { return prepared_; }
  LaneGraph AtLoad() const;

 private:
  LaneGraph(const CellDefinition& cell, int max_segments)
      : cell_(&cell),
        max_segments_(static_cast<size_t>(max_segments)),
        stored_(cell.ops().size()) {}

  // What a sum is made of: products and biases, and what parameters alone make beside these.
  struct Gathering {
    AccumulatorExpr sum;
    std::vector<ExprId> computed;
  };

  void ViewOutputs();
  void FindParameterValues();
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
  std::pair<ValueId, ValueId> SquaresOf(const Op& reduction) const;
  ExprId ViewSum(ValueId v, PlainKind kind, PlainKind of_squares, int32_t begin, int32_t width);
  ExprId ViewPlain(PlainExpr whole, ElementType type, int32_t begin, int32_t width);
  ExprId PartOf(ExprId whole, int32_t begin, int32_t width);
  ExprId ViewComputedMatMul(ValueId v, int32_t begin, int32_t width);
  bool Factor(ValueId v, bool may_turn, bool may_prepare, PlainExpr& product);
  void AddTerms(ValueId x, int32_t begin, int32_t depth, ParameterView w, std::vector<Term>& terms);
  bool MatrixOf(ValueId v, bool may_prepare, ParameterView& view);
  ExprId Intern(Expr e);
  bool IsConstant(ExprId e) const { return constant_[static_cast<size_t>(e)]; }
  bool MayPrepare(ValueId reader) const {
    return preparing_ && !of_parameters_[static_cast<size_t>(reader.value())];
  }
  void CountUses();
  void CountUsesOf(ExprId e, std::vector<bool>& seen);
  void Gather();
  ExprId Gathered(ExprId e);
  ExprId MakeGathered(ExprId e);
  bool IsSumOfBiases(ExprId e) const;
  bool Collect(ExprId e, bool root, Gathering& gathering);
  ExprId ConstantTerm(const Term& term, int32_t width);
  bool CollectTerms(const AccumulatorExpr& product, int32_t width, Gathering& gathering);
  ParameterView Prepared(ExprId e);
  ParameterView PreparedBias(const Gathering& gathering, int32_t width);
  std::vector<ParameterId> ParametersOf(ExprId root) const;

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
  bool sums_squares_ = false;
  bool preparing_ = false;           // what is constant becomes a parameter where it is read
  std::vector<bool> of_parameters_;  // by value: nothing that a node brings is in it
  std::vector<bool> constant_;       // by expression: likewise
  std::vector<ExprId> roots_;        // what is prepared
  std::vector<PreparedParameter> prepared_;
  std::map<ExprId, int32_t> number_of_;  // of those
  absl::Status status_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_COMPILE_LANE_GRAPH_H_
