// The batched executor: runs a cell's operator batches (batched_program.h) over the nodes of a task, one call on contiguous
// operands after the other, products by a vendor's library, copies where the plan leaves an operand not in place.
//
//   rows of tables --bring--> memory of the task: launch, gather, launch, scatter, ... --leave--> rows of tables
//
// An input whose rows lie side by side as a task reads them, or an output likewise, is used where it lies, unless the plan
// wants it beside something else.
//
// It is what fusion is compared with, and the shape of an executor for devices that have no fused kernel; it is not for
// serving: the library's sums depend on how many rows a product has, so bits depend on b and on company. Element-wise
// operators and reductions are those of the CPU device. Denormals are flushed.
//
// One core. A cell is immutable, any number of threads may run it, each with a scratch of its own; a run allocates nothing.
#ifndef CELLBATCH_CELLS_BATCHED_BATCHED_CELL_H_
#define CELLBATCH_CELLS_BATCHED_BATCHED_CELL_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cells/batched/batched_program.h"
#include "cells/cell_type.h"
#include "cells/device/cpu/cell_run.h"
#include "cells/kernels/blas/openblas.h"
#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/packed_memory.h"

namespace cellbatch {

// Of one run. The first four are what memplan's CostReport says of the layout for as many instances, counted where they are
// copied; likewise the inputs.
struct BatchedCounts {
  int64_t gathers = 0, scatters = 0, gather_bytes = 0, scatter_bytes = 0;
  int64_t input_gathers = 0, input_bytes = 0;  // to places in the plan
  int64_t row_copies = 0, row_bytes = 0;  // from and to rows that do not lie as the cell reads them
  int64_t launches = 0;
};

class BatchedCell {
 public:
  // Stores the weights as the program wants them. `blas` none: products by `kernels`, as of values, for who wants to tell
  // the library from the way of running. REQUIRES: `type` outlives this, and is the program's cell.
  BatchedCell(const CellType& type, BatchedProgram program, const kernels::CpuKernels& kernels,
              std::optional<kernels::OpenBlas> blas);

  const CellType& type() const { return *type_; }
  const BatchedProgram& program() const { return program_; }
  const kernels::CpuKernels& kernels() const { return *kernels_; }
  void ByRows(const kernels::MatMulArgs& args) const {
    blas_.has_value() ? blas_->ByRows(args) : kernels_->mat_mul_by_rows(args);
  }
  void ByColumns(const kernels::MatMulArgs& args) const {
    blas_.has_value() ? blas_->ByColumns(args) : kernels_->mat_mul_by_columns(args);
  }
  const float* weights() const { return weights_.data(); }

 private:
  void Store(VariableId v, float* to) const;

  const CellType* type_;
  BatchedProgram program_;
  const kernels::CpuKernels* kernels_;
  std::optional<kernels::OpenBlas> blas_;
  kernels::PackedMemory weights_;
};

// What a run needs beside rows and weights.
class BatchedScratch {
 public:
  BatchedScratch(const BatchedProgram& program, int32_t most_nodes);

  int32_t most_nodes() const { return most_nodes_; }
  float* memory() { return memory_.data(); }
  float* stage() { return stage_.data(); }
  std::vector<float*>& places() { return places_; }  // by variable

 private:
  int32_t most_nodes_;
  kernels::PackedMemory memory_, stage_;
  std::vector<float*> places_;
};

// REQUIRES: no more nodes than the scratch is for; no node reads a row that another one leaves.
BatchedCounts RunBatched(const BatchedCell& cell, const CellColumns& columns,
                         const NodeLists& nodes, BatchedScratch& scratch);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_BATCHED_BATCHED_CELL_H_
