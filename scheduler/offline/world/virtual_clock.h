// A clock that stands where simulated devices, and who drives them, put it; and when something next happens there.
// Every driver of the scheduler in virtual time moves by these: the simulation of tests, the world of learners.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_WORLD_VIRTUAL_CLOCK_H_
#define CELLBATCH_SCHEDULER_OFFLINE_WORLD_VIRTUAL_CLOCK_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "cells/device/sim/sim_device.h"
#include "cells/device/sim/sim_time.h"
#include "scheduler/clock.h"

namespace cellbatch {

class VirtualClock final : public Clock {
 public:
  int64_t NowNs() const override { return time_.now_ns(); }
  SimTime& time() { return time_; }

 private:
  SimTime time_;
};

// The earlier of two moments, where either may never come.
inline std::optional<int64_t> Earlier(std::optional<int64_t> a, std::optional<int64_t> b) {
  if (!a || !b) return a ? a : b;
  return *a < *b ? a : b;
}

// When the first of these devices does something by itself; none: nothing is under way.
inline std::optional<int64_t> NextEventNs(absl::Span<SimDevice* const> devices) {
  std::optional<int64_t> next;
  for (const SimDevice* device : devices) next = Earlier(next, device->next_event_ns());
  return next;
}

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_WORLD_VIRTUAL_CLOCK_H_
