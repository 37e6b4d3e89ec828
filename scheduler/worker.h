// Feeds one device: enqueues what the manager submitted, lets it compute, watches its signal, moves
// its time stamps to the host's clock, and gives up a device that failed or hangs. A function, not a
// thread: whoever calls Step is the worker.
//
//   Enqueue -> Advance -> Signal: done  ->  Health, or a task beyond its limit: Abandon -> failed
//
// `failed` is told only after Abandon returned: from then on nothing is written by that device, and the
// manager may answer and free. A device that runs by itself is hung when the oldest task it has is in
// progress for longer than its limit_ns. Where Advance computes here (the CPU), nobody is left to notice.
#ifndef CELLBATCH_SCHEDULER_WORKER_H_
#define CELLBATCH_SCHEDULER_WORKER_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "cells/device/device.h"
#include "scheduler/clock.h"
#include "scheduler/device_clock.h"
#include "scheduler/task_ring.h"

namespace cellbatch {

class Worker {
 public:
  // The ring starts where the device's signal stands.
  Worker(Device& device, TaskRing& ring, const Clock& clock);

  // True if it did anything: a task was enqueued, computed or seen done, or the device failed.
  bool Step();
  // Whether Step has reason to be called soon: tasks queued or in progress. Worker's thread.
  bool busy() const { return !failed_here_ && (ring_.HasQueued() || ring_.enqueued() != done_); }

  // Any thread. After `failed`, the device is never called again and `failure` holds still.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  const absl::Status& failure() const { return failure_; }

 private:
  bool Enqueue();
  bool Reap();
  absl::Status Overdue();
  void GiveUp(absl::Status why);

  Device& device_;
  TaskRing& ring_;
  const Clock& clock_;
  const bool runs_by_itself_;
  DeviceClock device_clock_;
  uint64_t done_;
  int64_t oldest_since_ns_ = 0;  // the task after done_ is in progress since then
  bool failed_here_ = false;
  absl::Status failure_;
  std::atomic<bool> failed_ = false;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_WORKER_H_
