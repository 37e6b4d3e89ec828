// Whether a precision has a number for every weight of a product: bf16 ends below the largest fp32, and what is no number has no
// scale. Pure; load time, a pass over the weights; any thread.
#ifndef CELLBATCH_CELLS_DEVICE_HELD_WEIGHTS_H_
#define CELLBATCH_CELLS_DEVICE_HELD_WEIGHTS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "cells/cell_type.h"
#include "cells/program/cell_program.h"

namespace cellbatch {

// INVALID_ARGUMENT names the first weight of the segment, of `units` units, for which the program's precision has no number.
// `data`: the values of a parameter of the definition, or prepared.
absl::Status CheckHeld(const SegmentPlan& segment, int32_t units, const CellType& type,
                       const CellProgram& program,
                       absl::FunctionRef<const float*(ParameterId)> data);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_HELD_WEIGHTS_H_
