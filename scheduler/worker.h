// Feeds one device: enqueues what the manager submitted, lets it compute, watches its signal, and
// stamps when tasks started and ended. A function, not a thread: whoever calls Step is the worker.
#ifndef CELLBATCH_SCHEDULER_WORKER_H_
#define CELLBATCH_SCHEDULER_WORKER_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "cells/device/device.h"
#include "scheduler/clock.h"
#include "scheduler/task_ring.h"

namespace cellbatch {

class Worker {
 public:
  Worker(Device& device, TaskRing& ring, const Clock& clock)
      : device_(device), ring_(ring), clock_(clock) {}

  // True if it did anything: a task was enqueued, computed or seen done, or the device failed.
  bool Step();
  // Whether Step has reason to be called soon: tasks queued or in progress. Worker's thread.
  bool busy() const { return !failed_here_ && (ring_.HasQueued() || ring_.enqueued() != done_); }

  // Any thread. After `failed`, the device is never called again and `failure` holds still.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  const absl::Status& failure() const { return failure_; }

 private:
  void Stamp(uint64_t first, uint64_t last);

  Device& device_;
  TaskRing& ring_;
  const Clock& clock_;
  uint64_t done_ = 0;
  int64_t last_end_ns_ = 0;
  bool failed_here_ = false;
  absl::Status failure_;
  std::atomic<bool> failed_ = false;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_WORKER_H_
