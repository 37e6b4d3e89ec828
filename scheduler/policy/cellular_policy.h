// Algorithm 1 of BatchMaker (EuroSys '18): (a) a type with a full batch, else (b) one of which
// nothing is running, else (c) any with ready nodes; in each the highest priority, ties by id. The
// manager then repeats the type up to MaxTasksToSubmit times while batches stay >= min_batch.
// Only types with ready nodes are chosen, so a task is never empty (as printed, it can be).
#ifndef CELLBATCH_SCHEDULER_POLICY_CELLULAR_POLICY_H_
#define CELLBATCH_SCHEDULER_POLICY_CELLULAR_POLICY_H_

#include <optional>

#include "scheduler/policy/policy.h"

namespace cellbatch {

class CellularPolicy final : public Policy {
 public:
  std::optional<Choice> Choose(Frontier frontier) const override;
  absl::Span<const std::string_view> reasons() const override;
  bool repeats_type() const override { return true; }
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_CELLULAR_POLICY_H_
