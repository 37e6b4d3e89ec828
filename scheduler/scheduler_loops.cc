#include "scheduler/scheduler_loops.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cells/device/cpu/process_limits.h"
#include "scheduler/device_places.h"

namespace cellbatch {
namespace {

using Idle = Loop::Body::Idle;

// Of the manager, by a worker that has a device to feed: then the manager's own thread goes on.
constexpr int kStepsInARow = 4;

// Whether the devices' threads leave one for the manager.
bool SpareCore(absl::Span<const std::unique_ptr<Device>> devices) {
  int cores = 0;
  for (const auto& device : devices) cores += std::max(1, device->info().cores);
  return cores < UsableCores();
}

}  // namespace

SchedulerLoops::SchedulerLoops(const Parts& parts, int64_t spin_ns)
    : parts_(parts), managing_([this] { return Manage(); }) {
  Loop::Spin spin = Loop::SpinFor(spin_ns, parts_.workers.size() + 1, UsableCores());
  if (StepsAlternate(parts_.devices)) {
    Alternate(spin);
    return;
  }
  const bool spare_core = SpareCore(parts_.devices);
  for (size_t d = 0; d < parts_.workers.size(); ++d) {
    StartWorker(d, !spare_core && parts_.devices[d]->info().computes_in_advance, spin);
  }
  if (!spare_core) spin.ns = 0;
  StartManager(spin);
}

void SchedulerLoops::Stop() {
  for (const std::unique_ptr<Loop>& loop : loops_) loop->Stop();
}

void SchedulerLoops::Alternate(Loop::Spin spin) {
  Loop::Body body;
  body.step = [this] {
    const bool managed = parts_.manager.Step();
    return parts_.workers[0]->Step() || managed;
  };
  body.idle = [] { return Idle::kForAnything; };
  loops_.push_back(std::make_unique<Loop>("cb-manager", body, parts_.manager_bell, spin));
}

void SchedulerLoops::StartWorker(size_t device, bool manages, Loop::Spin spin) {
  Worker* const worker = parts_.workers[device].get();
  Loop::Body body;
  body.step = [this, worker, manages] {
    if (!worker->Step()) return false;
    if (!manages || managing_.Step(kStepsInARow).asked) parts_.manager_bell.Ring();
    return true;
  };
  body.idle = [worker] { return worker->busy() ? Idle::kBusy : Idle::kForAnything; };
  loops_.push_back(std::make_unique<Loop>(absl::StrCat("cb-worker-", device), body,
                                          *parts_.worker_bells[device], spin));
}

void SchedulerLoops::StartManager(Loop::Spin spin) {
  Loop::Body body;
  body.step = [this] {
    const SharedStep::Result made = managing_.Step(1);
    return made.worked || made.asked;
  };
  body.idle = [this] {
    return all_full_.load(std::memory_order_acquire) ? Idle::kForUrgent : Idle::kForAnything;
  };
  loops_.push_back(std::make_unique<Loop>("cb-manager", body, parts_.manager_bell, spin));
}

// The manager's step, on whichever thread. If its own sleeps meanwhile, then for what the devices say now.
bool SchedulerLoops::Manage() {
  using Sleep = Doorbell::Sleep;
  Manager& manager = parts_.manager;
  bool worked = manager.Step();
  while (parts_.manager_bell.Change(manager.AllDevicesFull() ? Sleep::kForUrgent
                                                             : Sleep::kForAnything)) {
    worked |= manager.Step();
  }
  all_full_.store(manager.AllDevicesFull(), std::memory_order_release);
  return worked;
}

}  // namespace cellbatch
