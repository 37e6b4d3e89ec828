// One packed cell on rows of its own, apart from any model: what the self-test runs at load, and the tests.
//
//   CellRows rows(definition, 50, 33);         50 rows of each input, 33 of the output, all zeros
//   rows.Run(cell, reads, {0, 1}, scratch, cores);
//   rows.Left(1)                               what the second node left, bit by bit
//
// Owns its rows; one thread at a time. Allocates when made and in Run.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_CELL_ROWS_H_
#define CELLBATCH_CELLS_DEVICE_CPU_CELL_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "cells/cell_definition.h"
#include "cells/device/cpu/cell_run.h"
#include "cells/device/cpu/packed_cell.h"
#include "cells/kernels/cpu/packed_memory.h"

namespace cellbatch {

class CellRows {
 public:
  // By input, by node: the rows read. Exactly one of a kOne input.
  using Reads = std::vector<std::vector<std::vector<Row>>>;

  CellRows(const CellDefinition& cell, int32_t input_rows, int32_t output_rows);
  // What they take, to be asked before.
  static int64_t Bytes(const CellDefinition& cell, int32_t input_rows, int32_t output_rows);

  // To be filled before the first run.
  const CellColumns& columns() const { return columns_; }
  // From now on row 0 of every input is zeros, as in a model's tables, and runs may know it.
  void ZeroRow();

  // One node for each of `out`, which leaves that row, all in one batch.
  void Run(const PackedCell& cell, const Reads& reads, const std::vector<Row>& out,
           CellScratch& scratch, const Cores& cores) const;

  // The lists of such a batch, for whoever else runs it; they live during the call.
  void WithLists(const CellDefinition& cell, const Reads& reads, const std::vector<Row>& out,
                 absl::FunctionRef<void(const NodeLists&)> run) const;

  // By column; the bits, INT32 or not.
  std::vector<std::vector<float>> Left(Row row) const;

 private:
  ColumnArray Make(const Column& column, int32_t rows);

  std::vector<kernels::PackedMemory> memory_;
  CellColumns columns_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_CELL_ROWS_H_
