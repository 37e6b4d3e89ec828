// Writes the numbers of a program: the order of groups, with it how weights and biases are stacked; where in scratch each
// value lies; and which segments are one because their rows and their weights follow on each other. All of it comes out of
// the plan and nothing from anywhere else: another plan is another program (tests/conformance/planned_cells_test.cc).
//
// Pure, any thread; load time.
#ifndef CELLBATCH_CELLS_COMPILE_APPLY_PLAN_H_
#define CELLBATCH_CELLS_COMPILE_APPLY_PLAN_H_

#include "cells/compile/plan_cell.h"
#include "cells/compile/skeleton.h"
#include "cells/program/cell_program.h"
#include "cells/program/program_limits.h"

namespace cellbatch {

// REQUIRES: `plan` was made for `skeleton`.
CellProgram ApplyPlan(const CellSkeleton& skeleton, const CellPlan& plan,
                      const ProgramLimits& limits);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_COMPILE_APPLY_PLAN_H_
