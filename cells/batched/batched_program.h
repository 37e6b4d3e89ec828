// A cell as batches of equal operators over planned memory: what DyNet and ED-Batch run, where the compiler's own program
// (cells/program) runs products with fused tails. Plain data; which operators are batched and where everything lies is
// memplan's answer, naive or planned, and nothing else differs between the two.
//
//   memory of a task of n nodes        each variable is n rows side by side, and grows with n; weights do not
//     x            h            Ux n    Wh n    ...                 one plan serves every n
//   batch  matmul (f i o u) = (Uf Ui Uo Uu) (x x x x)
//     result   in place: first f, then i, o, u behind it            (address, count, stride)
//     weights  packed at load, or in place
//     source   staged: x four times, copied before the launch       what memplan calls a gather, and counts
//
// Weights lie apart from what tasks write, in the plan's order among themselves: an operand never mixes the two.
#ifndef CELLBATCH_CELLS_BATCHED_BATCHED_PROGRAM_H_
#define CELLBATCH_CELLS_BATCHED_BATCHED_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "cells/compile/operator_problem.h"
#include "memplan/layout_problem.h"
#include "memplan/memory_layout.h"

namespace cellbatch {

// Floats, some for each node of the task and some whatever its nodes.
struct Extent {
  int64_t each = 0, shared = 0;
  int64_t At(int64_t nodes) const { return each * nodes + shared; }
  Extent operator+(const Extent& o) const { return {each + o.each, shared + o.shared}; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

enum class OperandPlace : uint8_t {
  kInPlace,  // where its variables lie
  kStaged,   // copied in every task: a source before the launch, a result behind it
  kPacked,   // weights stored a second time at load
};

struct PlacedOperand {
  OperandPlace place = OperandPlace::kInPlace;
  std::vector<VariableId> variables;  // in the order in which the operators run
  bool is_weights = false;            // the same for every node
  Extent size;                        // of one variable
  Extent start;                       // kStaged: within the stage; kPacked: within the weights
};

// Operators [begin, end) of a batch whose operands go on by one stride each.
struct BatchLaunch {
  int32_t begin = 0, end = 0;
  // By operand: 1, each operator's variable lies behind the one before; 0, all have the same.
  std::vector<uint8_t> steps;
};

struct OperatorBatch {
  std::vector<PlacedOperand> operands;  // the result, then the sources
  std::vector<BatchLaunch> launches;    // one, but where a source is read again and again
};

struct BatchedProgram {
  CellOperators cell;  // its problem's batches are these
  std::vector<OperatorBatch> batches;
  std::vector<Extent>
      start;      // by variable: of weights within the weights, else within a task's memory
  Extent memory;  // of a task
  Extent stage;   // the most that one batch stages
  int64_t weight_floats = 0;
  // By variable: nobody needs it beside another one, so it may lie anywhere (in a table's rows).
  std::vector<bool> is_free;
  std::vector<bool> is_placed;  // by variable: has a place in the plan
};

// `batches` and `layout`: of `cell`'s operators, as BatchOperators (memplan/operator_batcher.h) answers; the layout may be any
// that the validator accepts. Load time.
BatchedProgram MakeBatchedProgram(CellOperators cell, const LayoutProblem& batches,
                                  const MemoryLayout& layout);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_BATCHED_BATCHED_PROGRAM_H_
