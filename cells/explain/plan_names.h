// The problem of a cell's plan with names that a person understands, for memplan/draw.
//
//   g0.1        group0.1         the sums of group 1 of step 0 (steps as in Describe, counted from 0)
//   W1+4096     U[64:128]        rows of parameter U; U[64:128, 0:32]: of these some columns
//   in1.0       before.h         a column of an input; out0 -> ->h; table0 -> E[]
//   scratch2    kept2            what steps store for later ones
//
// Pure, any thread.
#ifndef CELLBATCH_CELLS_EXPLAIN_PLAN_NAMES_H_
#define CELLBATCH_CELLS_EXPLAIN_PLAN_NAMES_H_

#include "cells/cell_definition.h"
#include "cells/compile/plan_cell.h"
#include "cells/compile/skeleton.h"
#include "memplan/layout_problem.h"

namespace cellbatch {

// REQUIRES: `plan` was made for `skeleton`, and that of `cell`.
LayoutProblem WithNames(const CellDefinition& cell, const CellSkeleton& skeleton,
                        const CellPlan& plan);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_EXPLAIN_PLAN_NAMES_H_
