// The rare operators of a program, row by row: copies, reductions in double, products of computed values by the kernels
// for them. Each sum has one order, so a row's bits depend on that row alone. Any thread; allocates nothing.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_PLAIN_STEP_H_
#define CELLBATCH_CELLS_DEVICE_CPU_PLAIN_STEP_H_

#include <cstdint>

#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/rows.h"
#include "cells/program/cell_program.h"

namespace cellbatch {

// The same rows, counted from row `first`.
template <typename Rows>
Rows RowsFrom(Rows rows, int32_t first) {
  if (rows.rows != nullptr) {
    rows.rows += first;
  } else {
    rows.base += rows.stride * first;
  }
  return rows;
}

// Rows [0, num_rows) of `out` from the same rows of the step's arguments.
void RunPlainStep(const PlainStep& step, const kernels::CpuKernels& kernels,
                  const kernels::RowSource* args, int32_t num_rows, const kernels::RowColumn& out);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_PLAIN_STEP_H_
