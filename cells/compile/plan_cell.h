// In which order the parts of a compiled cell lie: asks memplan.
//
//   skeleton: product 2x64  in0.0, in1.0@01 -> value 0 -> value 1       value 0 is made of group 0 alone, value 1 of group 1
//             product 1x64  in0.0, value 0  -> out0
//   problem:  batch product (g0.0 g0.1) = (W+0 W+4096) (in0.0 in0.0) (U+0 U+4096) (in1.0 in1.0)
//             batch store   (scratch0 scratch1) = (g0.0 g0.1)
//
// What a batched kernel reads or writes at once should lie side by side and in one order: the weights of a product's groups
// with its sums, the rows that several groups read or leave, the pieces of one long row. Weights that a model stacks keep
// their order where the plan can follow it; rows of tables lie where they lie. What is copied nowhere on a device that
// gathers while it loads still has an order, and this is where it comes from.
//
// Pure, any thread; load time (shipped cells some 0.1 ms).
#ifndef CELLBATCH_CELLS_COMPILE_PLAN_CELL_H_
#define CELLBATCH_CELLS_COMPILE_PLAN_CELL_H_

#include <cstdint>
#include <vector>

#include "cells/compile/skeleton.h"
#include "memplan/layout_problem.h"
#include "memplan/memory_layout.h"

namespace cellbatch {

// Sets of operands that are tried in each part of a cell, beyond the greedy ones, where not all can have their way; and leaves
// of trees that all tries of a cell may look at together. Enough for each shipped cell (the GRU's plan takes the most: 392
// leaves); twenty-five GRUs of different widths in one cell would go on for many milliseconds to store
// some matrices less at load. Bounds in work: plans
// do not depend on the machine.
inline constexpr int kMaxPlanChecks = 12;
inline constexpr int64_t kMaxPlanWork = 2000;

// Where a variable of the problem comes from.
struct PlannedVariable {
  enum class Origin : uint8_t {
    kWeightGroup,   // group `index` of step `step`: its weights and its sums
    kScratchValue,  // value `index`
    kInputColumn,   // column `column` of input `index`, or a part of it
    kOutputColumn,  // column `index`, or a part of it
    kTableRow,      // of lookup `index`, or a part of it
    kWeights,       // parameter `index`: the block that one group of a product reads
    kPartialSum,    // of group `index` of step `step`, between two operand batches
    kPiece,         // piece `index` of a long row that step `step` reads
  };
  Origin origin = Origin::kScratchValue;
  int32_t step = -1;
  int32_t index = 0;
  int32_t column = 0;
  int64_t offset = 0;       // elements behind the start of that column, row or parameter
  int64_t unit_stride = 1;  // of a block of weights: elements from the row of one unit to the next
  int32_t depth = 1;        // likewise: elements of each unit
  friend bool operator==(const PlannedVariable&, const PlannedVariable&) = default;
};

struct CellPlan {
  LayoutProblem problem;
  MemoryLayout layout;
  std::vector<PlannedVariable> variables;  // by variable of `problem`
};

CellPlan PlanCell(const CellSkeleton& skeleton);

// Everything in the order in which the skeleton names it: the plan of somebody who did not ask.
CellPlan DeclaredPlan(const CellSkeleton& skeleton);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_COMPILE_PLAN_CELL_H_
