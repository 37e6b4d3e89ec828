// Which memory each device of a set computes on, how many tasks it is given at once, whether its task memory holds as many, and
// who makes memory that all reach.
#ifndef CELLBATCH_SCHEDULER_DEVICE_PLACES_H_
#define CELLBATCH_SCHEDULER_DEVICE_PLACES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "cells/device/device.h"

namespace cellbatch {

// By device: the index of its memory in `devices`. INVALID_ARGUMENT: it is not there, or there are more than kMostMemories.
// RESOURCE_EXHAUSTED: `depth` tasks of
// `batch_limit` nodes do not fit its task memory.
absl::StatusOr<std::vector<int>> MemoriesOf(const DeviceSet& devices, int depth, int batch_limit);

// Whether manager and worker take turns on one thread: there is one device, which computes on its worker's.
bool StepsAlternate(absl::Span<const std::unique_ptr<Device>> devices);

// On each worker, at most; and of them, so many where more would do harm (SchedulerOptions). 0 was said: what devices ask for.
struct TasksInFlight {
  int most, few;
};
TasksInFlight TasksInFlightOf(const DeviceSet& devices, int most_said, int few_said);

// What one memory makes, all reach. Null: every device of these kinds reaches all host memory.
HostBlocks* HostBlocksFor(const DeviceSet& devices, DeviceKinds kinds);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_DEVICE_PLACES_H_
