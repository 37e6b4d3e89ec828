// Lowers a cell definition to a program of steps (cell_program.h). Knows operators, never cells.
//
//   1. Slices are pushed down to products and parameters; sums of products become accumulators (lane_graph.h).
//   2. Every expression gets a level: how many steps must run before it. Products of what is not computed yet wait.
//   3. Expressions of one level and width that share accumulators become one product with one tail: gates meet here.
//   4. What a later level needs, or a product or reduction reads, is stored: to an output column if it is one, else
//      to scratch. What does not fit one step of the device that will run it (`limits`) is cut in two.
//
//   5. An argmax over what nobody else reads becomes the end of its product (fuse_arg_max.h).
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
