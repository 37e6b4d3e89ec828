#include "scheduler/worker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cells/device/signal.h"

namespace cellbatch {

Worker::Worker(Device& device, TaskRing& ring, const Clock& clock)
    : device_(device),
      ring_(ring),
      clock_(clock),
      runs_by_itself_(!device.info().computes_in_advance),
      done_(device.Signal()) {}

bool Worker::Step() {
  if (failed_here_) return false;
  bool worked = Enqueue();
  if (device_.Advance()) worked = true;
  if (Reap()) worked = true;
  if (absl::Status health = device_.Health(); !health.ok()) [[unlikely]] {
    GiveUp(std::move(health));
    return true;
  }
  if (!worked && runs_by_itself_ && ring_.enqueued() != done_) {
    if (absl::Status hung = Overdue(); !hung.ok()) [[unlikely]] {
      GiveUp(std::move(hung));
      return true;
    }
  }
  return worked;
}

bool Worker::Enqueue() {
  if (!ring_.HasQueued()) return false;
  const int64_t now = clock_.NowNs();
  if (ring_.enqueued() == done_) oldest_since_ns_ = now;
  bool any = false;
  // All of them before the device begins, though the ring's end may lie between.
  for (auto queued = ring_.Queued(); !queued.empty(); queued = ring_.Queued()) {
    for (BatchedTask* task : queued) task->enqueued_ns = now;
    const int taken = device_.Enqueue(queued);
    ring_.Enqueued(taken);
    any |= taken > 0;
    if (taken < static_cast<int>(queued.size())) break;
  }
  return any;
}

bool Worker::Reap() {
  const uint64_t signal = device_.Signal();
  if (signal == done_ || !SignalPassed(signal, done_)) return false;
  const int64_t now = clock_.NowNs();
  while (done_ != signal) device_clock_.MoveToHost(ring_.task(++done_), now);
  oldest_since_ns_ = now;
  ring_.Done(signal);
  return true;
}

// The time is read before the signal: what was not done then was in progress all that time.
absl::Status Worker::Overdue() {
  const BatchedTask& task = ring_.task(done_ + 1);
  const int64_t ran_ns = clock_.NowNs() - oldest_since_ns_;
  if (task.limit_ns == 0 || ran_ns <= task.limit_ns) return absl::OkStatus();
  if (device_.Signal() != done_) return absl::OkStatus();  // the next step sees it
  return absl::InternalError(absl::StrCat(
      "hung: task ", task.sequence, " of cell \"", task.model->model().type(task.cell).name, "\", ",
      task.num_nodes, " nodes, ran ", absl::FormatDuration(absl::Nanoseconds(ran_ns)), ", limit ",
      absl::FormatDuration(absl::Nanoseconds(task.limit_ns))));
}

void Worker::GiveUp(absl::Status why) {
  failed_here_ = true;
  device_.Abandon();
  failure_ = std::move(why);
  failed_.store(true, std::memory_order_release);
}

}  // namespace cellbatch
