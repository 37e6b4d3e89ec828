#include <algorithm>
#include <cstring>

#include "cells/batched/batched_cell.h"
#include "cells/check.h"
#include "cells/device/cpu/plain_step.h"
#include "cells/kernels/cpu/flush_denormals.h"

namespace cellbatch {
namespace {

using kernels::RowColumn;
using kernels::RowSource;

constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));

// Whether a task's rows of a column are one piece of memory, row after row.
bool LieSideBySide(const ColumnArray& column, const Row* rows, int32_t nodes) {
  if (nodes == 1) return true;
  if (column.stride != column.width) return false;
  for (int32_t i = 1; i < nodes; ++i) {
    if (rows[i] != rows[0] + i) return false;
  }
  return true;
}

class BatchedRun {
 public:
  BatchedRun(const BatchedCell& cell, const CellColumns& columns, const NodeLists& nodes,
             BatchedScratch& scratch)
      : cell_(cell),
        program_(cell.program()),
        columns_(columns),
        nodes_(nodes),
        n_(nodes.num_nodes),
        memory_(scratch.memory()),
        stage_(scratch.stage()),
        places_(scratch.places()) {}

  BatchedCounts Run() {
    PlaceVariables();
    for (size_t v = 0; v < places_.size(); ++v) BringInput(static_cast<VariableId>(v));
    for (const OperatorBatch& batch : program_.batches) RunBatch(batch);
    for (size_t c = 0; c < program_.cell.outputs.size(); ++c) LeaveOutput(c);
    return counts_;
  }

 private:
  struct Operator;
  const OperatorVariable& Variable(VariableId v) const {
    return program_.cell.variables[static_cast<size_t>(v)];
  }
  VariableKind Kind(VariableId v) const {
    return program_.cell.problem.variables[static_cast<size_t>(v)].kind;
  }
  float* At(VariableId v) const { return places_[static_cast<size_t>(v)]; }
  float* At(const PlacedOperand& operand, int32_t i) const;
  RowSource Rows(const PlacedOperand& operand, int32_t i) const {
    return {At(operand, i), operand.is_weights ? 0 : operand.size.each};
  }

  void PlaceVariables();
  void BringInput(VariableId v);
  void LeaveOutput(size_t column);
  int64_t CopyOperand(const PlacedOperand& operand, bool scatter) const;
  void RunBatch(const OperatorBatch& batch);
  void Launch(const OperatorBatch& batch, const BatchLaunch& launch) const;

  void Run(const MatMulOperator& op, const Operator& at) const;
  void Run(const ElementWiseOperator& op, const Operator& at) const;
  void Run(const FillOperator& op, const Operator& at) const;
  void Run(const LookupOperator& op, const Operator& at) const;
  void Run(const JoinOperator& op, const Operator& at) const;
  void Run(const PartOperator& op, const Operator& at) const;
  void Run(const PlainOperator& op, const Operator& at) const;
  void Run(const BroughtLanes&, const Operator&) const { Check(false, "inputs are brought"); }
  void Run(const StoredWeights&, const Operator&) const { Check(false, "weights are stored"); }

  const BatchedCell& cell_;
  const BatchedProgram& program_;
  const CellColumns& columns_;
  const NodeLists& nodes_;
  const int32_t n_;
  float *const memory_, *const stage_;
  std::vector<float*>& places_;
  BatchedCounts counts_;
};

// Operators [first, first + count) of a batch, all of one launch, or one by itself.
struct BatchedRun::Operator {
  const OperatorBatch& batch;
  const BatchLaunch& launch;
  int32_t first, count;
  int32_t width;  // of the result

  const PlacedOperand& operand(size_t o) const { return batch.operands[o]; }
  size_t num_sources() const { return batch.operands.size() - 1; }
  // Whether the operand's variables lie one behind the other, or are all one.
  bool GoesOn(size_t o) const { return count == 1 || launch.steps[o] == 1; }
  bool IsOne(size_t o) const { return count == 1 || launch.steps[o] == 0; }
};

float* BatchedRun::At(const PlacedOperand& operand, int32_t i) const {
  switch (operand.place) {
    case OperandPlace::kInPlace:
      return At(operand.variables[static_cast<size_t>(i)]);
    case OperandPlace::kStaged:
      return stage_ + operand.start.At(n_) + i * operand.size.At(n_);
    case OperandPlace::kPacked:  // nobody writes there
      return const_cast<float*>(cell_.weights()) + operand.start.shared + i * operand.size.shared;
  }
  NoSuchEnumerator();
}

// Outputs that nobody needs beside something else are written where the task leaves them, if that is one piece of memory.
void BatchedRun::PlaceVariables() {
  for (size_t v = 0; v < places_.size(); ++v) {
    const bool weights = Kind(static_cast<VariableId>(v)) == VariableKind::kConstant;
    float* const base = weights ? const_cast<float*>(cell_.weights()) : memory_;
    places_[v] = base + program_.start[v].At(n_);
  }
  for (size_t c = 0; c < program_.cell.outputs.size(); ++c) {
    const VariableId v = program_.cell.outputs[c];
    const ColumnArray& column = columns_.outputs[c];
    if (Kind(v) != VariableKind::kOutput || !program_.is_free[static_cast<size_t>(v)]) continue;
    if (!LieSideBySide(column, nodes_.output_rows, n_)) continue;
    places_[static_cast<size_t>(v)] = column.At(nodes_.output_rows[0]);
  }
}

void BatchedRun::BringInput(VariableId v) {
  const auto* const lanes = std::get_if<BroughtLanes>(&Variable(v).from);
  if (lanes == nullptr) return;
  const auto i = static_cast<size_t>(lanes->input);
  const ColumnArray& column = columns_.inputs[i][static_cast<size_t>(lanes->column)];
  const Row* const rows = nodes_.inputs[i].rows;
  const int32_t width = Variable(v).width;
  const bool placed = program_.is_placed[static_cast<size_t>(v)];
  if (!placed && !lanes->summed && width == column.width &&
      program_.is_free[static_cast<size_t>(v)] && LieSideBySide(column, rows, n_)) {
    places_[static_cast<size_t>(v)] = column.At(rows[0]);
    return;
  }
  const RowSource from = {column.base + lanes->offset, column.stride, rows};
  const RowColumn to = {At(v), width};
  if (lanes->summed) {
    cell_.kernels().sum_rows(from, nodes_.inputs[i].offsets, width, n_, to);
  } else {
    cell_.kernels().copy_rows(from, width, n_, to);
  }
  (placed ? counts_.input_gathers : counts_.row_copies) += 1;
  (placed ? counts_.input_bytes : counts_.row_bytes) += width * n_ * kFloat;
}

void BatchedRun::LeaveOutput(size_t column) {
  const VariableId v = program_.cell.outputs[column];
  const ColumnArray& to = columns_.outputs[column];
  if (At(v) == to.At(nodes_.output_rows[0])) return;
  const int64_t stride = Kind(v) == VariableKind::kConstant ? 0 : to.width;
  cell_.kernels().copy_rows({At(v), stride}, to.width, n_,
                            {to.base, to.stride, nodes_.output_rows});
  counts_.row_copies += 1;
  counts_.row_bytes += to.width * n_ * kFloat;
}

int64_t BatchedRun::CopyOperand(const PlacedOperand& operand, bool scatter) const {
  const int64_t bytes = operand.size.At(n_) * kFloat;
  for (size_t i = 0; i < operand.variables.size(); ++i) {
    float *const staged = At(operand, static_cast<int32_t>(i)), *const own =
                                                                    At(operand.variables[i]);
    std::memcpy(scatter ? own : staged, scatter ? staged : own, static_cast<size_t>(bytes));
  }
  return bytes * static_cast<int64_t>(operand.variables.size());
}

void BatchedRun::RunBatch(const OperatorBatch& batch) {
  for (size_t o = 1; o < batch.operands.size(); ++o) {
    if (batch.operands[o].place != OperandPlace::kStaged) continue;
    counts_.gathers += 1;
    counts_.gather_bytes += CopyOperand(batch.operands[o], false);
  }
  for (const BatchLaunch& launch : batch.launches) {
    Launch(batch, launch);
    counts_.launches += 1;
  }
  if (batch.operands[0].place != OperandPlace::kStaged) return;
  counts_.scatters += 1;
  counts_.scatter_bytes += CopyOperand(batch.operands[0], true);
}

void BatchedRun::Launch(const OperatorBatch& batch, const BatchLaunch& launch) const {
  const auto variable = [&](int32_t i) -> const OperatorVariable& {
    return Variable(batch.operands[0].variables[static_cast<size_t>(i)]);
  };
  const OperatorVariable& first = variable(launch.begin);
  if (std::holds_alternative<MatMulOperator>(first.from) ||
      std::holds_alternative<ElementWiseOperator>(first.from)) {
    const Operator all = {batch, launch, launch.begin, launch.end - launch.begin, first.width};
    return std::visit([&](const auto& op) { Run(op, all); }, first.from);
  }
  // What is rare is said operator by operator: of one name, but each with shapes of its own.
  for (int32_t i = launch.begin; i < launch.end; ++i) {
    const Operator one = {batch, launch, i, 1, variable(i).width};
    std::visit([&](const auto& op) { Run(op, one); }, variable(i).from);
  }
}

// One product where all have the same weights, else one after the other: a strided batch, which BLAS has no call for.
void BatchedRun::Run(const MatMulOperator&, const Operator& at) const {
  const PlacedOperand &result = at.operand(0), &weights = at.operand(1), &row = at.operand(2);
  const auto depth = static_cast<int32_t>(weights.size.shared / at.width);
  kernels::MatMulArgs args = {nullptr, depth, nullptr, at.width, n_, depth, at.width, nullptr};
  const bool together = at.IsOne(1) && at.GoesOn(2) && !row.is_weights;
  if (together) args.rows = n_ * at.count;
  if (row.is_weights) args.rows = 1;
  for (int32_t i = at.first; i < at.first + (together ? 1 : at.count); ++i) {
    args.x = At(row, i), args.w = At(weights, i), args.y = At(result, i);
    cell_.ByColumns(args);
    if (row.is_weights) {  // of one row for every node
      cell_.kernels().copy_rows({args.y, 0}, at.width, n_ - 1, {args.y + at.width, at.width});
    }
  }
}

void BatchedRun::Run(const ElementWiseOperator& op, const Operator& at) const {
  bool one_row = true, together = true;
  size_t source = 0;
  size_t operand_of[2] = {};  // by argument; 0: a number
  for (size_t a = 0; a < op.args.size(); ++a) {
    if (op.args[a].has_value()) continue;
    operand_of[a] = ++source;
    const bool weights = at.operand(source).is_weights;
    one_row &= !weights && at.GoesOn(source);
    together &= weights ? at.IsOne(source) : at.GoesOn(source);
  }
  float numbers[2] = {};
  kernels::ElementWiseArgs args;
  args.op = op.op, args.out_stride = args.width = at.width;
  const int32_t calls = one_row || together ? 1 : at.count, each = at.count / calls;
  args.rows = int64_t{n_} * each;
  if (one_row) args.rows = 1, args.width *= int64_t{n_} * each;
  for (int32_t i = at.first; i < at.first + calls; ++i) {
    for (size_t a = 0; a < op.args.size(); ++a) {
      kernels::ElementWiseArgs::Source& from = a == 0 ? args.a : args.b;
      if (operand_of[a] == 0) {
        numbers[a] = op.args[a]->value();
        from = {&numbers[a], 0, true};
      } else {
        const PlacedOperand& operand = at.operand(operand_of[a]);
        from = {At(operand, i), operand.is_weights ? 0 : at.width, false};
      }
    }
    args.out = At(at.operand(0), i);
    cell_.kernels().element_wise(args);
  }
}

void BatchedRun::Run(const FillOperator& op, const Operator& at) const {
  std::fill_n(At(at.operand(0), at.first), int64_t{at.width} * n_, op.value.value());
}

void BatchedRun::Run(const LookupOperator& op, const Operator& at) const {
  const LookupSpec& spec = program_.cell.lookups[static_cast<size_t>(op.lookup)];
  const Weight& table = cell_.type().weights[static_cast<size_t>(spec.table.value())];
  const RowSource tokens = Rows(at.operand(1), at.first);
  float* to = At(at.operand(0), at.first);
  for (int32_t r = 0; r < n_; ++r, to += at.width) {
    int32_t token = 0;
    std::memcpy(&token, tokens.Row(r), sizeof(token));
    const int64_t row = std::clamp(token, 0, spec.rows - 1);
    std::copy_n(table.data.get() + spec.offset + row * spec.stride + op.offset, at.width, to);
  }
}

void BatchedRun::Run(const JoinOperator&, const Operator& at) const {
  float* to = At(at.operand(0), at.first);
  for (size_t s = 1; s <= at.num_sources(); ++s) {
    const PlacedOperand& piece = at.operand(s);
    const auto width = static_cast<int32_t>(piece.size.each + piece.size.shared);
    cell_.kernels().copy_rows(Rows(piece, at.first), width, n_, {to, at.width});
    to += width;
  }
}

void BatchedRun::Run(const PartOperator& op, const Operator& at) const {
  RowSource from = Rows(at.operand(1), at.first);
  from.base += op.offset;
  cell_.kernels().copy_rows(from, at.width, n_, {At(at.operand(0), at.first), at.width});
}

void BatchedRun::Run(const PlainOperator& op, const Operator& at) const {
  const PlainStep& step = op.step;
  RowSource from[3];
  for (size_t s = 0; s < at.num_sources(); ++s) from[s] = Rows(at.operand(s + 1), at.first);
  const RowColumn to = {At(at.operand(0), at.first), at.width};
  const bool by_rows = step.kind == PlainKind::kMatMulByRows;
  if (!by_rows && step.kind != PlainKind::kMatMulByColumns) {
    return RunPlainStep(step, cell_.kernels(), from, n_, to);
  }
  for (int32_t r = 0; r < n_; ++r) {
    const kernels::MatMulArgs args = {from[0].Row(r),  step.strides[0], from[1].Row(r),
                                      step.strides[1], step.shape.rows, step.shapes[0].cols,
                                      step.shape.cols, to.Row(r)};
    by_rows ? cell_.ByRows(args) : cell_.ByColumns(args);
  }
}

}  // namespace

BatchedCounts RunBatched(const BatchedCell& cell, const CellColumns& columns,
                         const NodeLists& nodes, BatchedScratch& scratch) {
  Check(nodes.num_nodes >= 1 && nodes.num_nodes <= scratch.most_nodes(), "nodes of a scratch");
  const kernels::FlushDenormals flush;
  return BatchedRun(cell, columns, nodes, scratch).Run();
}

}  // namespace cellbatch
