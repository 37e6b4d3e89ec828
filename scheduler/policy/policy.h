// Which cell type runs next. Pure and immutable: no clock, no allocation, O(cell types), ties by
// id; one per lane (model version), shared by all workers. (BatchMaker Algorithm 1; ED-Batch's FSM
// later takes the same place.)
#ifndef CELLBATCH_SCHEDULER_POLICY_POLICY_H_
#define CELLBATCH_SCHEDULER_POLICY_POLICY_H_

#include <optional>

#include "absl/types/span.h"
#include "cells/ids.h"

namespace cellbatch {

// What one worker may run of one cell type, now.
struct TypeView {
  CellTypeId type;
  int32_t ready = 0;            // nodes this worker could put into a task
  int32_t tasks_in_flight = 0;  // of this type, submitted to this worker and not done
  int32_t max_batch = 1;
  int32_t priority = 0;
};

class Policy {
 public:
  virtual ~Policy() = default;
  // Among the types of `frontier` with ready > 0, the one to form the next task of; nullopt if none.
  virtual std::optional<CellTypeId> Choose(absl::Span<const TypeView> frontier) const = 0;
  // How often the batch former repeats that type before it asks again. Only Algorithm 1 repeats
  // (up to MaxTasksToSubmit).
  virtual bool repeats_type() const { return false; }
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_POLICY_H_
