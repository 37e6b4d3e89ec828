// Lowers a cell definition to a program of steps (cell_program.h). Knows operators, never cells.
//
//   MakeSkeleton   which steps, and what they read and leave           skeleton.h
//   PlanCell       asks memplan in which order everything lies         plan_cell.h
//   ApplyPlan      writes the numbers: the plan is their only source   apply_plan.h
//
// Pure, any thread; load time (milliseconds). UNIMPLEMENTED or INVALID_ARGUMENT name the cell and the op.
#ifndef CELLBATCH_CELLS_COMPILE_LOWER_H_
#define CELLBATCH_CELLS_COMPILE_LOWER_H_

#include "absl/status/statusor.h"
#include "cells/cell_definition.h"
#include "cells/program/cell_program.h"
#include "cells/program/program_limits.h"

namespace cellbatch {

absl::StatusOr<CellProgram> Lower(const CellDefinition& cell, const ProgramLimits& limits);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_COMPILE_LOWER_H_
