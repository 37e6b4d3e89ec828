// One address space: packed weights, cell programs and row tables, shared by the devices that
// compute on it (CPU cores of a NUMA node; streams of one GPU). Load is the only allocation there is.
//
//   Memory ---- Load(model, rows) ----> LoadedModel: packed weights + programs + tables of rows
//      ^                                       ^
//      |  shared by                            | named by BatchedTask::model
//   Device 0, Device 1                      tasks
#ifndef CELLBATCH_CELLS_DEVICE_MEMORY_H_
#define CELLBATCH_CELLS_DEVICE_MEMORY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/ids.h"
#include "cells/model.h"

namespace cellbatch {

// A model as loaded into one Memory. Made and destroyed on the control thread; named by tasks while
// they run; every task that names it is done before it is destroyed.
class LoadedModel {
 public:
  virtual ~LoadedModel() = default;
  // Host-readable values of an int32 column, by row; current for rows whose task the signal passed.
  virtual absl::Span<const int32_t> host_column(TableId table, ColumnId column) const = 0;
  // Bytes this model occupies: weights with programs and folded tables, and rows.
  virtual int64_t weight_bytes() const = 0;
  virtual int64_t row_bytes() const = 0;
};

// How many rows each table gets (by TableId), row 0 (zeros) included.
struct RowBudget {
  std::vector<int32_t> rows;
};

class Memory {
 public:
  virtual ~Memory() = default;
  // Compiles every cell type and packs its weights: seconds, on the control thread. The model must
  // outlive the result. Fails with INVALID_ARGUMENT (a cell this device cannot compile, and why) or
  // RESOURCE_EXHAUSTED (asked and available bytes).
  virtual absl::StatusOr<std::unique_ptr<LoadedModel>> Load(const Model& model,
                                                            const RowBudget& budget) = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_MEMORY_H_
