// T(b): what a task of each cell type takes, by its nodes, as it was measured on a device, and the largest batches that
// are in force there. Between two measured sizes it is interpolated; beyond the largest it goes on as the last two say,
// and below the smallest it is the smallest's. Plain value; any thread reads.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_WORLD_TASK_COSTS_H_
#define CELLBATCH_SCHEDULER_OFFLINE_WORLD_TASK_COSTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/ids.h"
#include "cells/model.h"
#include "scheduler/scheduler.h"

namespace cellbatch {

struct TypeCosts {
  int32_t max_batch = 0;  // in force
  std::vector<CalibrationPoint> points;
  int32_t peak_batch = 0;  // while the queue stays longer than max_batch; 0: max_batch
};

class TaskCosts {
 public:
  // By CellTypeId. INVALID_ARGUMENT: a type without points, a batch below 1, sizes that do not ascend, a time that is not
  // positive.
  static absl::StatusOr<TaskCosts> Of(std::vector<TypeCosts> types);
  // What a scheduler measured in that memory as it loaded the model. As above where it measured nothing.
  static absl::StatusOr<TaskCosts> Of(absl::Span<const CellTypeCalibration> measured, int memory,
                                      const Model& model);

  absl::Span<const TypeCosts> types() const { return types_; }
  int64_t Ns(CellTypeId type, int32_t nodes) const {
    const std::vector<int64_t>& ns = ns_[static_cast<size_t>(type.value())];
    const auto at = static_cast<size_t>(nodes);
    return at < ns.size() ? ns[at] : Beyond(ns, nodes);
  }

  // The same, but tasks of each type take `times` (by type) as long, and all of them `task_ns` more.
  TaskCosts Slower(absl::Span<const double> times, int64_t task_ns) const;

 private:
  static int64_t Beyond(const std::vector<int64_t>& ns, int32_t nodes);

  std::vector<TypeCosts> types_;
  std::vector<std::vector<int64_t>> ns_;  // by type and nodes, to the largest measured
};

// The model with those largest batches in force, and nothing left for a device to find out.
std::shared_ptr<const Model> WithBatchesOf(const TaskCosts& costs, const Model& model);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_WORLD_TASK_COSTS_H_
