// The promise that bits do not depend on company, tried on the very weights and kernels that will serve: node 0 of a
// batch of 1, of 7 and of b_max leaves the same bits, wherever it stands in the batch.
//
// Load time; a few steps of the cell, on rows of its own. INTERNAL names the cell, the column and the element.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_SELF_TEST_H_
#define CELLBATCH_CELLS_DEVICE_CPU_SELF_TEST_H_

#include "absl/status/status.h"
#include "cells/device/cpu/packed_cell.h"

namespace cellbatch {

absl::Status SelfTest(const PackedCell& cell);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_SELF_TEST_H_
