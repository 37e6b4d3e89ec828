// The threads of a scheduler: which of them makes whose steps (scheduler/README.md, Threads).
//
//   one device that computes in Advance    one thread: manager, worker, manager, ..
//   others, a core left over               a thread each; the manager's spins before it sleeps
//   others, no core left over              a thread each; a worker whose task is done makes the manager's step, too: waking the manager on a core
//                                          that computes would cost more than the step
//
// Owned by the scheduler, made when all that the threads use is there, and stopped before any of it goes.
#ifndef CELLBATCH_SCHEDULER_SCHEDULER_LOOPS_H_
#define CELLBATCH_SCHEDULER_SCHEDULER_LOOPS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "cells/device/device.h"
#include "scheduler/doorbell.h"
#include "scheduler/loop.h"
#include "scheduler/manager.h"
#include "scheduler/shared_step.h"
#include "scheduler/worker.h"

namespace cellbatch {

class SchedulerLoops {
 public:
  // All outlive it; workers and their bells by device.
  struct Parts {
    Manager& manager;
    Doorbell& manager_bell;
    absl::Span<const std::unique_ptr<Device>> devices;
    absl::Span<const std::unique_ptr<Worker>> workers;
    absl::Span<const std::unique_ptr<Doorbell>> worker_bells;
  };
  // `spin_ns`: how long who finds nothing looks around before it sleeps, where it has a core.
  SchedulerLoops(const Parts& parts, int64_t spin_ns);

  // Ends the threads after their current steps. Idempotent; the control thread.
  void Stop();

 private:
  void Alternate(Loop::Spin spin);
  void StartWorker(size_t device, bool manages, Loop::Spin spin);
  void StartManager(Loop::Spin spin);
  bool Manage();

  const Parts parts_;
  SharedStep managing_;
  std::atomic<bool> all_full_ = false;        // the devices, as the manager's last step left them
  std::vector<std::unique_ptr<Loop>> loops_;  // last: their threads use everything above
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_SCHEDULER_LOOPS_H_
