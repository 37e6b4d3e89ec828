#include "cells/compile/lane_graph.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "cells/check.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

// How products are ordered within a sum: foldable table rows, inputs, what is computed, the carry.
constexpr int kRankTable = 0, kRankInput = 1, kRankComputed = 2, kRankCarry = 3;

}  // namespace

void LaneGraph::ViewOutputs() {
  for (const Op& op : cell_->ops()) {
    if (Family(op.kind) != OpFamily::kReduction) continue;
    const ValueId squared = SquaresOf(op).first, reduced = squared.valid() ? squared : op.args[0];
    if (cell_->op(reduced).args[0].valid()) stored_[static_cast<size_t>(reduced.value())] = true;
  }
  for (const Output& output : cell_->outputs()) outputs_.push_back(Whole(output.value));
}

absl::StatusOr<LaneGraph> LaneGraph::BuildAsWritten(const CellDefinition& cell) {
  LaneGraph graph(cell, 0);
  graph.ViewOutputs();
  if (!graph.status_.ok()) return graph.status_;
  return graph;
}

absl::StatusOr<LaneGraph> LaneGraph::Build(const CellDefinition& cell,
                                           const ProgramLimits& limits) {
  LaneGraph graph(cell, limits.segments);
  graph.sums_squares_ = limits.scalars;
  graph.preparing_ = true;
  graph.FindParameterValues();
  graph.ViewOutputs();
  if (!graph.status_.ok()) return graph.status_;
  graph.Gather();
  return graph;
}

ExprId LaneGraph::Intern(Expr e) {
  std::vector<ExprId>& alike = alike_[LookOf(e)];
  for (const ExprId there : alike) {
    if (at(there) == e) return there;
  }
  bool constant = !e.Is<InputExpr>() && !e.Is<SummedInputExpr>();
  ForEachOperand(e.node, [&](ExprId operand) { constant &= IsConstant(operand); });
  constant_.push_back(constant);
  exprs_.push_back(std::move(e));
  alike.push_back(static_cast<ExprId>(exprs_.size()) - 1);
  return alike.back();
}

ExprId LaneGraph::View(ValueId v, int32_t begin, int32_t width) {
  const std::tuple key(v.value(), begin, width);
  const auto there = views_.find(key);
  if (there != views_.end()) return there->second;
  const bool part = width < cell_->op(v).shape.size() && stored_[static_cast<size_t>(v.value())];
  return views_[key] = part ? PartOf(Whole(v), begin, width) : MakeView(v, begin, width);
}

ExprId LaneGraph::MakeView(ValueId v, int32_t begin, int32_t width) {
  const Op& op = cell_->op(v);
  switch (op.kind) {
    case OpKind::kInput:
      return ViewInput(op, begin, width);
    case OpKind::kParameter: {
      const ParameterView view = {ParameterId(op.attr[0]), begin};
      return Intern({.node = ParameterExpr{view}, .width = width});
    }
    case OpKind::kConstant: {
      // An INT32 is carried as the float of the same bits: it is only ever stored.
      const Constant value = {static_cast<uint32_t>(op.attr[0])};
      return Intern({.node = ConstantExpr{value}, .type = op.type, .width = width});
    }
    case OpKind::kLookup:
      return ViewLookup(v, begin, width);
    case OpKind::kMatMul:
      return ViewMatMul(v, begin, width);
    case OpKind::kSlice:
      if (!op.shape.is_vector()) return ViewPlain(v, PlainKind::kSlice, begin, width);
      return View(op.args[0], begin + op.attr[0], width);
    case OpKind::kConcat:
      return ViewConcat(op, begin, width);
    case OpKind::kTranspose:
      if (op.shape.rows > 1 && op.shape.cols > 1) {
        return ViewPlain(v, PlainKind::kTranspose, begin, width);
      }
      return View(op.args[0], begin, width);
    case OpKind::kSum:
      return ViewSum(v, PlainKind::kSum, PlainKind::kSumSquares, begin, width);
    case OpKind::kMean:
      return ViewSum(v, PlainKind::kMean, PlainKind::kMeanSquares, begin, width);
    case OpKind::kSoftmax:
      return ViewPlain(v, PlainKind::kSoftmax, begin, width);
    case OpKind::kArgMax:
      return ViewPlain(v, PlainKind::kArgMax, begin, width);
    case OpKind::kAdd:
      return ViewElementwise(op, TailOpKind::kAdd, begin, width);
    case OpKind::kSub:
      return ViewElementwise(op, TailOpKind::kSub, begin, width);
    case OpKind::kMul:
      return ViewElementwise(op, TailOpKind::kMul, begin, width);
    case OpKind::kDiv:
      return ViewElementwise(op, TailOpKind::kDiv, begin, width);
    case OpKind::kMax:
      return ViewElementwise(op, TailOpKind::kMax, begin, width);
    case OpKind::kSigmoid:
      return ViewElementwise(op, TailOpKind::kSigmoid, begin, width);
    case OpKind::kTanh:
      return ViewElementwise(op, TailOpKind::kTanh, begin, width);
    case OpKind::kRelu:
      return ViewElementwise(op, TailOpKind::kRelu, begin, width);
    case OpKind::kExp:
      return ViewElementwise(op, TailOpKind::kExp, begin, width);
    case OpKind::kLog:
      return ViewElementwise(op, TailOpKind::kLog, begin, width);
  }
  NoSuchEnumerator();
}

ExprId LaneGraph::ViewInput(const Op& op, int32_t begin, int32_t width) {
  const Input& input = cell_->inputs()[static_cast<size_t>(op.attr[0])];
  if (op.type == ElementType::kBf16) {
    status_ = absl::UnimplementedError(
        fmt::format("cell \"{}\": input \"{}\" reads BF16 columns, which no step does yet",
                    cell_->name(), input.name));
  }
  if (input.arity == Arity::kSum) {
    return Intern({.node = SummedInputExpr{op.attr[0], op.attr[1], begin},
                   .type = op.type,
                   .width = width,
                   .rank = kRankComputed});
  }
  const bool is_carry = cell_->carry() == InputId(op.attr[0]);
  return Intern({.node = InputExpr{op.attr[0], op.attr[1], begin},
                 .type = op.type,
                 .width = width,
                 .rank = is_carry ? kRankCarry : kRankInput});
}

ExprId LaneGraph::ViewLookup(ValueId v, int32_t begin, int32_t width) {
  const Op& op = cell_->op(v);
  auto [at, is_new] = lookup_of_.emplace(v.value(), static_cast<int32_t>(lookups_.size()));
  const int32_t lookup = at->second;
  if (is_new) {
    ParameterView table;
    if (!MatrixOf(op.args[0], MayPrepare(v), table) || table.depth_stride != 1) {
      status_ = absl::UnimplementedError(fmt::format(
          "cell \"{}\": op {} (Lookup): the table must be a parameter, rows one behind the other",
          cell_->name(), v.value()));
    }
    lookups_.push_back({table.parameter, table.offset, table.unit_stride,
                        cell_->op(op.args[0]).shape.rows, Place()});
    tokens_.push_back(kNoExpr);
    const ExprId token = Whole(op.args[1]);
    tokens_[static_cast<size_t>(lookup)] = token;
  }
  const ExprId token = tokens_[static_cast<size_t>(lookup)];
  return Intern({.node = TableRowExpr{lookup, begin, token}, .width = width, .rank = kRankTable});
}

ExprId LaneGraph::ViewOperand(const Op& op, size_t which, int32_t begin, int32_t width) {
  const ValueId v = op.args[which];
  const Op& from = cell_->op(v);
  if (from.shape.size() != 1 || op.shape.size() == 1) return View(v, begin, width);
  if (from.kind == OpKind::kParameter) {
    const ParameterView view = {ParameterId(from.attr[0]), 0, 0};
    return Intern({.node = ParameterExpr{view}, .width = width});
  }
  if (from.kind == OpKind::kConstant) return View(v, 0, width);
  return ViewPlain({.kind = PlainKind::kBroadcast,
                    .args = {Whole(v)},
                    .arg_shapes = {Shape{}},
                    .shape = Shape::Vector(width)},
                   ElementType::kFp32, 0, width);
}

ExprId LaneGraph::ViewElementwise(const Op& op, TailOpKind tail, int32_t begin, int32_t width) {
  OpExpr made = {.op = tail};
  made.args.push_back(ViewOperand(op, 0, begin, width));
  if (op.args[1].valid()) made.args.push_back(ViewOperand(op, 1, begin, width));
  return Intern({.node = std::move(made), .width = width, .rank = kRankComputed});
}

ExprId LaneGraph::ViewConcat(const Op& op, int32_t begin, int32_t width) {
  std::vector<ExprId> pieces;
  int32_t start = 0;
  for (const ValueId v : op.args) {
    if (!v.valid()) break;
    const auto size = static_cast<int32_t>(cell_->op(v).shape.size());
    const int32_t from = std::max(begin, start), to = std::min(begin + width, start + size);
    if (from < to) pieces.push_back(View(v, from - start, to - from));
    start += size;
  }
  if (pieces.size() == 1) return pieces[0];
  return Intern({.node = ConcatExpr{std::move(pieces)},
                 .type = op.type,
                 .width = width,
                 .rank = kRankComputed});
}

// `may_prepare`: a matrix that parameters alone make is one, too.
bool LaneGraph::MatrixOf(ValueId v, bool may_prepare, ParameterView& view) {
  const Op& op = cell_->op(v);
  if (op.kind == OpKind::kParameter) {
    view = {ParameterId(op.attr[0]), 0, op.shape.cols, 1};
    return true;
  }
  if (op.kind != OpKind::kTranspose && op.kind != OpKind::kSlice) {
    if (!may_prepare || !of_parameters_[static_cast<size_t>(v.value())]) return false;
    view = {Prepared(Whole(v)).parameter, 0, op.shape.cols, 1};
    return true;
  }
  if (!MatrixOf(op.args[0], may_prepare, view)) return false;
  if (op.kind == OpKind::kTranspose) {
    std::swap(view.unit_stride, view.depth_stride);
  } else {
    view.offset += op.attr[0] * view.depth_stride;
  }
  return true;
}

// The terms of x[begin .. begin + depth] . w: one for each piece x is made of.
void LaneGraph::AddTerms(ValueId x, int32_t begin, int32_t depth, ParameterView w,
                         std::vector<Term>& terms) {
  const Op& op = cell_->op(x);
  if (op.kind == OpKind::kSlice && op.shape.is_vector()) {
    return AddTerms(op.args[0], begin + op.attr[0], depth, w, terms);
  }
  if (op.kind != OpKind::kConcat) {
    terms.push_back({View(x, begin, depth), depth, w});
    return;
  }
  int32_t start = 0;
  for (const ValueId v : op.args) {
    if (!v.valid()) break;
    const int32_t size = cell_->op(v).shape.cols;
    const int32_t from = std::max(begin, start), to = std::min(begin + depth, start + size);
    ParameterView part = w;
    part.offset += (from - begin) * w.depth_stride;
    if (from < to) AddTerms(v, from - start, to - from, part, terms);
    start += size;
  }
}

ExprId LaneGraph::ViewMatMul(ValueId v, int32_t begin, int32_t width) {
  const Op& op = cell_->op(v);
  ParameterView w;
  if (!op.shape.is_vector() || !MatrixOf(op.args[1], MayPrepare(v), w)) {
    return ViewComputedMatMul(v, begin, width);
  }
  w.offset += begin * w.unit_stride;
  AccumulatorExpr sum;
  AddTerms(op.args[0], 0, cell_->op(op.args[0]).shape.cols, w, sum.terms);
  if (sum.terms.size() > max_segments_) {  // an x of many pieces: joined first
    sum.terms = {{Whole(op.args[0]), cell_->op(op.args[0]).shape.cols, w}};
  }
  return Intern({.node = std::move(sum), .width = width, .rank = kRankComputed});
}

// Adds `v` as an argument of a product: a parameter or a part of one is read where it lies; what is turned round is
// read as it was, if `may_turn`. True: it is turned round.
bool LaneGraph::Factor(ValueId v, bool may_turn, bool may_prepare, PlainExpr& product) {
  const Op& op = cell_->op(v);
  const bool turned = may_turn && op.kind == OpKind::kTranspose;
  const ValueId lies = turned ? op.args[0] : v;
  const Op& from = cell_->op(lies);
  product.arg_shapes.push_back(from.shape);
  ParameterView view;
  const bool lies_somewhere = MatrixOf(v, may_prepare, view);
  const bool by_rows = lies_somewhere && view.depth_stride == 1;
  const bool by_columns = may_turn && lies_somewhere && view.unit_stride == 1;
  if (by_rows || by_columns) {
    product.arg_shapes.back() = by_rows ? op.shape : Shape{op.shape.cols, op.shape.rows};
    product.strides.push_back(by_rows ? view.unit_stride : view.depth_stride);
    product.args.push_back(Intern({.node = ParameterExpr{{view.parameter, view.offset}},
                                   .width = static_cast<int32_t>(op.shape.size())}));
    return !by_rows;
  }
  product.strides.push_back(from.shape.cols);
  product.args.push_back(Whole(lies));
  return turned;
}

// A product of what a node computes, or brings, with itself or (a matrix) with a parameter.
ExprId LaneGraph::ViewComputedMatMul(ValueId v, int32_t begin, int32_t width) {
  const Op& op = cell_->op(v);
  PlainExpr product = {.shape = op.shape};
  Factor(op.args[0], false, MayPrepare(v), product);
  const bool turned = Factor(op.args[1], true, MayPrepare(v), product);
  product.kind = turned ? PlainKind::kMatMulByColumns : PlainKind::kMatMulByRows;
  return ViewPlain(std::move(product), ElementType::kFp32, begin, width);
}

ExprId LaneGraph::ViewPlain(ValueId v, PlainKind kind, int32_t begin, int32_t width) {
  const Op& op = cell_->op(v);
  PlainExpr plain = {
      .kind = kind, .shape = op.shape, .begin = kind == PlainKind::kSlice ? op.attr[0] : 0};
  for (const ValueId arg : op.args) {
    if (!arg.valid()) break;
    plain.args.push_back(Whole(arg));
    plain.arg_shapes.push_back(cell_->op(arg).shape);
  }
  return ViewPlain(std::move(plain), op.type, begin, width);
}

// What `reduction` sums the squares of: the first, or the first less the second, one number; invalid: of nothing.
std::pair<ValueId, ValueId> LaneGraph::SquaresOf(const Op& reduction) const {
  const bool sum = reduction.kind == OpKind::kSum || reduction.kind == OpKind::kMean;
  const Op& of = cell_->op(reduction.args[0]);
  if (!sum || !sums_squares_ || of.kind != OpKind::kMul || of.args[0] != of.args[1]) return {};
  const Op& squared = cell_->op(of.args[0]);
  const bool above = squared.kind == OpKind::kSub && cell_->op(squared.args[1]).shape.size() == 1;
  return above ? std::pair(squared.args[0], squared.args[1]) : std::pair(of.args[0], ValueId());
}

// Squares are no row of their own to the sum of them, nor is what is squared if it is a value less one number.
ExprId LaneGraph::ViewSum(ValueId v, PlainKind kind, PlainKind of_squares, int32_t begin,
                          int32_t width) {
  const auto [of, less] = SquaresOf(cell_->op(v));
  if (!of.valid()) return ViewPlain(v, kind, begin, width);
  PlainExpr sum = {.kind = of_squares, .shape = cell_->op(v).shape};
  for (const ValueId arg : {of, less}) {
    if (!arg.valid()) break;
    sum.args.push_back(Whole(arg));
    sum.arg_shapes.push_back(cell_->op(arg).shape);
  }
  return ViewPlain(std::move(sum), ElementType::kFp32, begin, width);
}

ExprId LaneGraph::ViewPlain(PlainExpr plain, ElementType type, int32_t begin, int32_t width) {
  const auto whole_width = static_cast<int32_t>(plain.shape.size());
  const ExprId whole =
      Intern({.node = std::move(plain), .type = type, .width = whole_width, .rank = kRankComputed});
  return PartOf(whole, begin, width);
}

ExprId LaneGraph::PartOf(ExprId whole, int32_t begin, int32_t width) {
  if (begin == 0 && width == at(whole).width) return whole;
  return Intern({.node = PartExpr{whole, begin},
                 .type = at(whole).type,
                 .width = width,
                 .rank = kRankComputed});
}

}  // namespace cellbatch
