// Moves a device's time stamps to the host's clock, without asking the device for the time.
//
//   host    enqueued ----------------------------- seen      the task ran somewhere in between, so
//   device             start -------- end                    enqueued - start <= offset <= seen - end
//
// Each task narrows the offset or, where the clocks drift apart, moves it. An idle device starts a
// task soon after it is enqueued, so the lower bound is off by a launch at most. Durations stay the
// device's own. One thread; some ns a task.
#ifndef CELLBATCH_SCHEDULER_DEVICE_CLOCK_H_
#define CELLBATCH_SCHEDULER_DEVICE_CLOCK_H_

#include <algorithm>
#include <cstdint>

#include "cells/device/batched_task.h"

namespace cellbatch {

class DeviceClock {
 public:
  // The task was seen done at `seen_ns`. Tasks come in order; none starts before the one before it ended.
  void MoveToHost(BatchedTask& task, int64_t seen_ns) {
    const int64_t least = task.enqueued_ns - task.start_ns;
    const int64_t most = seen_ns - task.end_ns;
    offset_ns_ = any_ ? std::max(least, std::min(offset_ns_, most)) : least;
    any_ = true;
    const int64_t ran_ns = std::max<int64_t>(task.end_ns - task.start_ns, 0);
    task.start_ns = std::max(task.start_ns + offset_ns_, last_end_ns_);
    task.end_ns = last_end_ns_ = task.start_ns + ran_ns;
  }

 private:
  bool any_ = false;
  int64_t offset_ns_ = 0;
  int64_t last_end_ns_ = INT64_MIN;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_DEVICE_CLOCK_H_
