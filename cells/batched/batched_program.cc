#include "cells/batched/batched_program.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cells/check.h"

namespace cellbatch {
namespace {

class ProgramMaker {
 public:
  ProgramMaker(CellOperators cell, const LayoutProblem& batches, const MemoryLayout& layout)
      : layout_(layout) {
    made_.cell = std::move(cell);
    made_.cell.problem = batches;
    const size_t variables = batches.variables.size();
    Check(made_.cell.variables.size() == variables, "a layout of this cell's variables");
    made_.start.resize(variables);
    made_.is_free.assign(variables, true);
    made_.is_placed.assign(variables, false);
  }

  BatchedProgram Make() {
    PlaceVariables();
    for (size_t b = 0; b < problem().batches.size(); ++b) AddBatch(static_cast<int32_t>(b));
    return std::move(made_);
  }

 private:
  const LayoutProblem& problem() const { return made_.cell.problem; }
  bool IsWeights(VariableId v) const {
    return problem().variables[static_cast<size_t>(v)].kind == VariableKind::kConstant;
  }
  Extent Size(VariableId v) const {
    const int64_t width = made_.cell.variables[static_cast<size_t>(v)].width;
    return IsWeights(v) ? Extent{0, width} : Extent{width, 0};
  }
  void PlaceVariables();
  void Place(VariableId v);
  OperandPlace PlaceOf(OperandRef where) const;
  PlacedOperand MakeOperand(OperandRef where, Extent& stage);
  void AddBatch(int32_t b);
  uint8_t StepBehind(const PlacedOperand& operand, size_t i) const;
  void AddLaunches(OperatorBatch& batch) const;

  const MemoryLayout& layout_;
  BatchedProgram made_;
};

// Weights and what tasks write, each in the plan's order: neighbours stay neighbours. Behind them what arrives in places of
// its own, run by run, for when it does not lie there already.
void ProgramMaker::PlaceVariables() {
  for (const VariableId v : layout_.order) {
    made_.is_placed[static_cast<size_t>(v)] = true;
    Place(v);
  }
  for (const std::vector<VariableId>& run : problem().fixed) {
    for (const VariableId v : run) Place(v);
  }
}

void ProgramMaker::Place(VariableId v) {
  Extent& start = made_.start[static_cast<size_t>(v)];
  if (IsWeights(v)) {
    start = {0, made_.weight_floats};
    made_.weight_floats += Size(v).shared;
  } else {
    start = made_.memory;
    made_.memory = made_.memory + Size(v);
  }
}

OperandPlace ProgramMaker::PlaceOf(OperandRef where) const {
  for (const OperandCopy& copy : layout_.copies) {
    if (copy.where == where) return OperandPlace::kStaged;
  }
  const bool packed = std::binary_search(layout_.packed.begin(), layout_.packed.end(), where);
  return packed ? OperandPlace::kPacked : OperandPlace::kInPlace;
}

PlacedOperand ProgramMaker::MakeOperand(OperandRef where, Extent& stage) {
  const auto b = static_cast<size_t>(where.batch);
  const Operand& entries = problem().batches[b].operands[static_cast<size_t>(where.operand)];
  PlacedOperand made = {.place = PlaceOf(where),
                        .variables = {},
                        .is_weights = IsWeights(entries[0]),
                        .size = Size(entries[0]),
                        .start = {}};
  for (const int32_t i : layout_.operator_order[b]) {
    made.variables.push_back(entries[static_cast<size_t>(i)]);
    Check(IsWeights(made.variables.back()) == made.is_weights, "weights and values never mix");
  }
  const auto count = static_cast<int64_t>(made.variables.size());
  const Extent all = {made.size.each * count, made.size.shared * count};
  if (made.place == OperandPlace::kStaged) {
    made.start = stage;
    stage = stage + all;
  } else if (made.place == OperandPlace::kPacked) {
    made.start = {0, made_.weight_floats};
    made_.weight_floats += all.shared;
  } else if (std::set(made.variables.begin(), made.variables.end()).size() > 1) {
    for (const VariableId v : made.variables) made_.is_free[static_cast<size_t>(v)] = false;
  }
  return made;
}

void ProgramMaker::AddBatch(int32_t b) {
  OperatorBatch batch;
  Extent stage;
  const size_t operands = problem().batches[static_cast<size_t>(b)].operands.size();
  for (size_t o = 0; o < operands; ++o) {
    batch.operands.push_back(MakeOperand({b, static_cast<int32_t>(o)}, stage));
  }
  made_.stage = {std::max(made_.stage.each, stage.each),
                 std::max(made_.stage.shared, stage.shared)};
  AddLaunches(batch);
  made_.batches.push_back(std::move(batch));
}

constexpr uint8_t kNewLaunch = 2;

// How operator i's variable lies to the one before: behind it, the same, or neither.
uint8_t ProgramMaker::StepBehind(const PlacedOperand& operand, size_t i) const {
  if (operand.place != OperandPlace::kInPlace) return 1;
  const VariableId before = operand.variables[i - 1], here = operand.variables[i];
  if (before == here) return 0;
  const Extent next = made_.start[static_cast<size_t>(before)] + operand.size;
  return made_.start[static_cast<size_t>(here)] == next ? 1 : kNewLaunch;
}

void ProgramMaker::AddLaunches(OperatorBatch& batch) const {
  const auto count = static_cast<int32_t>(batch.operands[0].variables.size());
  for (int32_t i = 0; i < count; ++i) {
    std::vector<uint8_t> steps;
    bool goes_on = i > 0;
    for (const PlacedOperand& operand : batch.operands) {
      steps.push_back(i == 0 ? 1 : StepBehind(operand, static_cast<size_t>(i)));
      goes_on &= steps.back() != kNewLaunch;
    }
    // The second operator of a launch says how it goes on.
    if (goes_on && i - batch.launches.back().begin == 1) batch.launches.back().steps = steps;
    if (goes_on && batch.launches.back().steps == steps) {
      batch.launches.back().end = i + 1;
    } else {
      batch.launches.push_back({i, i + 1, std::vector<uint8_t>(batch.operands.size(), 1)});
    }
  }
}

}  // namespace

BatchedProgram MakeBatchedProgram(CellOperators cell, const LayoutProblem& batches,
                                  const MemoryLayout& layout) {
  return ProgramMaker(std::move(cell), batches, layout).Make();
}

}  // namespace cellbatch
