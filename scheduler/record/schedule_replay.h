// A recorded schedule taken again: the manager that served, given what its steps saw, on devices that do nothing but say
// that a task is done when the record says so.
//
//   tape, step by step -->  control messages, arrivals, news, finished tasks  -->  Manager::Step  -->  its own tape
//                                                                                                    the same words?
//
// The same record gives the same schedule, to the last row of the last task, whatever threads and devices it came from;
// the hash over all tasks says so (schedule_tape.h). With another policy it goes on until the first task that differs.
//
// Here is no clock and no device: what would have happened, had something been different, is for a world in virtual time.
// One thread; as long as the manager's steps took, and the graphs' making.
#ifndef CELLBATCH_SCHEDULER_RECORD_SCHEDULE_REPLAY_H_
#define CELLBATCH_SCHEDULER_RECORD_SCHEDULE_REPLAY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/clock.h"
#include "scheduler/policy/policy_spec.h"
#include "scheduler/record/recorded_run.h"

namespace cellbatch {

struct ReplayOptions {
  std::optional<PolicySpec> policy;  // of every lane; none: as recorded
  bool check_invariants = false;     // after every step: for tests
};

struct ReplayedAnswer {
  uint64_t request = 0;  // ScheduleTape::RequestWord
  // From Submit to its first task, and from there to the end of its last one; 0: it never ran.
  int64_t queue_ns = 0, compute_ns = 0;
};

struct ScheduleReport {
  uint64_t recorded_hash = 0, replayed_hash = 0;  // of all tasks to where the replay ended
  std::string difference;  // the first step that is not as recorded; empty: there is none
  std::string ends_early;  // what is missing in the record to go on; empty: nothing
  int64_t steps = 0, tasks = 0, nodes = 0;
  std::vector<int64_t> tasks_by_type;   // of all lanes, by CellTypeId
  std::vector<ReplayedAnswer> answers;  // in the order in which they left
  int64_t step_ns = 0;                  // in steps of the manager
  bool same() const { return difference.empty() && recorded_hash == replayed_hash; }
  double mean_fill() const {
    return tasks == 0 ? 0 : static_cast<double>(nodes) / static_cast<double>(tasks);
  }
};

// FAILED_PRECONDITION: it has a lane whose policy or rule of joining is code that no record holds. INVALID_ARGUMENT: it
// contradicts itself, which no server's does.
absl::StatusOr<ScheduleReport> ReplaySchedule(const RecordedRun& run, const ReplayOptions& options,
                                              const Clock& clock);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_RECORD_SCHEDULE_REPLAY_H_
