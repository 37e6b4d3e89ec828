// One address space: packed weights, cell programs and row tables, shared by the devices that
// compute on it (CPU cores of a NUMA node; streams of one GPU). Load is the only allocation there is.
//
//   Memory ---- Load(model, rows) ----> LoadedModel: packed weights + programs + tables of rows
//      ^   |                                   ^
//      |   +-- host_blocks() --> HostBlocks    | named by BatchedTask::model
//      |  shared by                 ^          |
//   Device 0, Device 1              +------ tasks copy rows in from there, and answers out to there
//
// A table of n rows:   row 0        1 .. n-1                          n
//                      zeros        whoever plans tasks hands out     trash: padding writes it, and launches wider than their task
#ifndef CELLBATCH_CELLS_DEVICE_MEMORY_H_
#define CELLBATCH_CELLS_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/device/account.h"
#include "cells/device_kind.h"
#include "cells/ids.h"
#include "cells/model.h"

namespace cellbatch {

// A model as loaded into one Memory. Made and destroyed on the control thread; named by tasks while
// they run; every task that names it is done before it is destroyed.
class LoadedModel {
 public:
  virtual ~LoadedModel() = default;
  virtual const Model& model() const = 0;
  // Values of an int32 column, by row, without the trash row; current for rows whose task the signal passed.
  // It lies in memory that the host reads as its own, while tasks run: a device whose rows do not keeps a copy
  // there, which a task writes before its signal.
  virtual absl::Span<const int32_t> host_column(TableId table, ColumnId column) const = 0;
  // One row beyond the budget: where a device lets those nodes of a launch write that its task does not have, and tasks
  // let nodes of padding (batched_task.h). Nobody reads it, and several nodes, threads and devices may write it at once.
  virtual Row trash_row(TableId table) const = 0;
  // Bytes this model occupies: weights with programs and folded tables, and rows.
  virtual int64_t weight_bytes() const = 0;
  virtual int64_t row_bytes() const = 0;
  // What of it was computed at load for each word of a table, in words, for logs; empty: nothing.
  virtual std::string folded() const { return {}; }
};

// How many rows each table gets (by TableId), row 0 (zeros) included, the trash row not.
struct RowBudget {
  std::vector<int32_t> rows;
};

// Host memory that devices reach without waiting (of a GPU: pinned, mapped, portable), made for requests: what
// their tasks copy from and to. Every memory of a DeviceSet reaches what any of them makes.
// Any thread, for each request: pooled, at about what malloc costs.
class HostBlocks {
 public:
  virtual ~HostBlocks() = default;
  // Whole cache lines; null: there is no more.
  virtual std::byte* Allocate(int64_t bytes) = 0;
  // REQUIRES: `bytes` are those it was allocated with; no task that names it is enqueued, or its device was abandoned.
  virtual void Free(std::byte* block, int64_t bytes) = 0;
};

class Memory {
 public:
  virtual ~Memory() = default;
  // Of the devices that compute here: all of one.
  virtual DeviceKind kind() const { return DeviceKind::kCpu; }
  // Null: its devices reach all of this process's memory (a CPU), so tasks copy where requests have their
  // tensors. Else CopyIn::source and CopyOut::dest lie in blocks of these.
  virtual HostBlocks* host_blocks() { return nullptr; }
  // Compiles every cell type and packs its weights: seconds, on the control thread. The model must
  // outlive the result. Fails with INVALID_ARGUMENT (a cell this device cannot compile, and why) or
  // RESOURCE_EXHAUSTED (asked and available bytes).
  virtual absl::StatusOr<std::unique_ptr<LoadedModel>> Load(const Model& model,
                                                            const RowBudget& budget) = 0;
  // Models that will be loaded next, in any order: what all share is divided between them as if they came at once, and
  // kept for them until others are expected (or none). Who was not expected gets what is left. They outlive that.
  // Control thread, milliseconds; a model that cannot be compiled is told so by Load.
  virtual void Expect(absl::Span<const Model* const> /*models*/) {}
  // What Load makes of the model's cells, for people; as it fails where one cannot be compiled. Allocates nothing that
  // stays; any thread, beside tasks that run; milliseconds. A memory that has nothing to say says nothing.
  virtual absl::StatusOr<ModelAccount> Account(const Model& /*model*/) const {
    return ModelAccount();
  }
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_MEMORY_H_
