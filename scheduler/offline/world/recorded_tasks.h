// What a record says of tasks (recorded_world.h): which there were, what they took alone and served, what the scheduler took
// before each, and where something else had the core. Plain values; O(the record).
#ifndef CELLBATCH_SCHEDULER_OFFLINE_WORLD_RECORDED_TASKS_H_
#define CELLBATCH_SCHEDULER_OFFLINE_WORLD_RECORDED_TASKS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/offline/world/recorded_world.h"
#include "scheduler/offline/world/serving_world.h"
#include "scheduler/record/recorded_run.h"

namespace cellbatch {

struct RecordedTask {
  int worker, type;
  int32_t nodes;
  int64_t start_ns, end_ns;
  int64_t ns() const { return end_ns - start_ns; }
};

// Of one lane, in the order in which they were done.
std::vector<RecordedTask> TasksOf(const RecordedRun& run, const RecordedLane& lane);

// T(b) as the server's calibration has it: the least of each size, and none slower than a larger one.
absl::StatusOr<TypeCosts> Calibrated(const std::vector<RecordedTask>& tasks, const CellType& type,
                                     int64_t first_request_ns);

// When how many requests were out.
class Outstanding {
 public:
  explicit Outstanding(const RecordedRun& run) {
    for (const RecordedRequest& r : run.requests) {
      came_.push_back(r.submitted_ns);
      if (r.ended) left_.push_back(r.end.last_task_end_ns);
    }
    std::sort(came_.begin(), came_.end());
    std::sort(left_.begin(), left_.end());
  }
  bool AnyAt(int64_t ns) const { return Before(came_, ns) > Before(left_, ns); }
  // The first that came after then; none: `ns`.
  int64_t NextAfter(int64_t ns) const {
    const auto next = std::upper_bound(came_.begin(), came_.end(), ns);
    return next == came_.end() ? ns : *next;
  }

 private:
  static int64_t Before(const std::vector<int64_t>& times, int64_t ns) {
    return std::upper_bound(times.begin(), times.end(), ns) - times.begin();
  }
  std::vector<int64_t> came_, left_;
};

// Served tasks, and what the scheduler took before each: where one device computes on the scheduler's thread.
struct Timed {
  RecordedTask task;
  int64_t before_ns = -1;  // -1: it waited for a request, or its device was fed ahead of time
  bool stalled = false;
};

// Gaps between tasks, told apart by whether anybody was there. `alone`: one device computes on the scheduler's thread.
std::vector<Timed> TimedOf(const std::vector<RecordedTask>& served, const Outstanding& out,
                           bool alone, RecordedWorld& world);

// Finds the stalled among them, and leaves their stalls in the world.
void FindStalls(const TaskCosts& alone, std::vector<Timed>& timed, RecordedWorld& world);

// What tasks take served, where they take that alone: the scheduler's part of each included.
absl::StatusOr<TaskCosts> Served(const TaskCosts& alone, const std::vector<Timed>& timed,
                                 int64_t overhead_ns);

// What tasks took in parts of their costs, window by window: of each type where enough of it ran then, else of all. Sums
// by sums: of single tasks the slow ones would count for as long as they lasted. From `first_ns` on.
std::vector<std::vector<WorldPace>> PaceOf(const TaskCosts& costs, const std::vector<Timed>& timed,
                                           int64_t first_ns);

double Mean(const std::vector<int64_t>& values);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_WORLD_RECORDED_TASKS_H_
