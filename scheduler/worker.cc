#include "scheduler/worker.h"

#include <algorithm>

namespace cellbatch {

bool Worker::Step() {
  if (failed_here_) return false;
  bool worked = false;
  if (const auto queued = ring_.Queued(); !queued.empty()) {
    const int64_t now = clock_.NowNs();
    for (BatchedTask* task : queued) task->start_ns = now;
    const int taken = device_.Enqueue(queued);
    ring_.Enqueued(taken);
    worked = taken > 0;
  }
  if (device_.Advance()) worked = true;
  if (const uint64_t signal = device_.Signal(); static_cast<int64_t>(signal - done_) > 0) {
    Stamp(done_ + 1, signal);
    done_ = signal;
    ring_.Done(signal);
    worked = true;
  }
  if (absl::Status health = device_.Health(); !health.ok()) [[unlikely]] {
    failure_ = std::move(health);
    failed_here_ = true;
    failed_.store(true, std::memory_order_release);
    return true;
  }
  return worked;
}

// A task starts when it was enqueued or when the one before it ended, whatever came later.
void Worker::Stamp(uint64_t first, uint64_t last) {
  const int64_t now = clock_.NowNs();
  for (uint64_t sequence = first; sequence <= last; ++sequence) {
    BatchedTask& task = ring_.task(sequence);
    task.start_ns = std::max(task.start_ns, last_end_ns_);
    task.end_ns = last_end_ns_ = now;
  }
}

}  // namespace cellbatch
