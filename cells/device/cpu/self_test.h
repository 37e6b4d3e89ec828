// The promise that bits do not depend on company, tried on the very weights and kernels that will serve: node 0 of a
// batch of 1, of 7 and of b_max leaves the same bits, wherever it stands in the batch, and also where its inputs are the
// row of zeros, which costs no product as long as nobody else is in the batch.
//
// Load time; a few steps of the cell, on rows of its own and in `scratch`, which nobody else uses meanwhile. INTERNAL
// names the cell, the column and the element.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_SELF_TEST_H_
#define CELLBATCH_CELLS_DEVICE_CPU_SELF_TEST_H_

#include <cstdint>

#include "absl/status/status.h"
#include "cells/cell_type.h"
#include "cells/device/cpu/cell_run.h"
#include "cells/device/cpu/packed_cell.h"

namespace cellbatch {

absl::Status SelfTest(const PackedCell& cell, CellScratch& scratch);

// What those rows take, to be asked before.
int64_t SelfTestBytes(const CellType& type);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_SELF_TEST_H_
