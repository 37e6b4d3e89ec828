// A batched task: nodes of one cell type, of any requests, run as one launch. Written once by the
// manager into device-visible memory, read in place by the worker, the CPU device or kernels.
// Tasks carry row numbers, never tensors: inputs are gathered by index while loading.
//
// Plain pointers and counts (kernels of every device include this header). A task's lists live in
// its ring slot's memory and hold still from Submit until the device's signal passes `sequence`.
#ifndef CELLBATCH_CELLS_DEVICE_BATCHED_TASK_H_
#define CELLBATCH_CELLS_DEVICE_BATCHED_TASK_H_

#include <cstddef>
#include <cstdint>

#include "cells/cell_definition.h"
#include "cells/ids.h"

namespace cellbatch {

class LoadedModel;

// Rows of a joining request, before the task computes: one column of `rows` rows from `first` of a table,
// packed at `source` (host memory that the device reaches, see memory.h, and that outlives the
// task). A table of several columns takes a copy each. rows == 0: blanked by a cancel.
struct CopyIn {
  const std::byte* source;
  TableId table;
  Row first;
  int32_t rows;
  ColumnId column = ColumnId(0);
};

// After the task computed: one column of one of its output rows, to host memory that the device reaches.
// dest == nullptr: blanked by a cancel.
struct CopyOut {
  std::byte* dest;
  ColumnId column;
  Row row;  // of the task's output table
};

// What one input of each node reads. kOne: rows[i] is node i's row (kZeroRow: zeros), offsets null.
// kSum: node i reads rows[offsets[i] .. offsets[i+1]), summed in that order; none is zeros.
struct InputRows {
  const Row* rows = nullptr;
  const int32_t* offsets = nullptr;
};

struct BatchedTask {
  uint64_t sequence = 0;  // of its device: one more than the task before it (device.h, point 3)
  const LoadedModel* model = nullptr;
  CellTypeId cell;
  int32_t num_nodes = 0;
  InputRows inputs[kMaxInputs];
  // One a node; no row twice, none of them read by this task's inputs. Nodes of padding are the exception: they write
  // their table's trash row, all of them (LoadedModel::trash_row), and every row that they read is row 0.
  const Row* output_rows = nullptr;
  const CopyIn* copies_in = nullptr;
  int32_t num_copies_in = 0;
  const CopyOut* copies_out = nullptr;
  int32_t num_copies_out = 0;
  // Longer than this in progress, and its device counts as hung; 0: for ever.
  int64_t limit_ns = 0;
  // What it takes says what a task of so many nodes takes: all of it is computed, also what the device could spare itself
  // because every node reads row 0 (as a warm-up does), and no other task is in its launch. The device may read other numbers
  // instead, if zeros are multiplied faster. What it leaves, nobody reads.
  bool measured = false;
  // When the worker gave it to the device (the worker's clock).
  int64_t enqueued_ns = 0;
  // Stamped by the device before its signal passes the task, on the device's own clock; then moved to the worker's
  // clock by the worker, for the manager to read.
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_BATCHED_TASK_H_
