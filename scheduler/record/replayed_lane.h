// A scheduler's options and a lane as a record has them, for the manager that takes the recorded steps again.
#ifndef CELLBATCH_SCHEDULER_RECORD_REPLAYED_LANE_H_
#define CELLBATCH_SCHEDULER_RECORD_REPLAYED_LANE_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scheduler/lane.h"
#include "scheduler/policy/policy_spec.h"
#include "scheduler/record/recorded_run.h"
#include "scheduler/scheduler.h"

namespace cellbatch {

// INVALID_ARGUMENT: no server has such options.
absl::Status CheckRecorded(const RecordedSetup& setup);
// Of one that is checked.
SchedulerOptions ReplayedOptions(const RecordedSetup& setup);
// `policy`: instead of the lane's own. FAILED_PRECONDITION: its policy or rule of joining is code, which no record holds.
// INVALID_ARGUMENT: it is no server's lane.
absl::StatusOr<std::unique_ptr<Lane>> ReplayedLane(const RecordedLane& recorded,
                                                   const std::optional<PolicySpec>& policy,
                                                   const RecordedSetup& setup,
                                                   const SchedulerOptions& options);

// What it took over, instead of which `policy` may decide, too.
absl::StatusOr<std::shared_ptr<LanePolicy>> ReplayedPolicy(const Lane& lane,
                                                           const RecordedPolicy& taken,
                                                           const std::optional<PolicySpec>& policy);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_RECORD_REPLAYED_LANE_H_
