// Which memory each device of a set computes on, whether its task memory holds a ring, and who makes memory that all reach.
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

// What one memory makes, all reach. Null: every device of these kinds reaches all host memory.
HostBlocks* HostBlocksFor(const DeviceSet& devices, DeviceKinds kinds);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_DEVICE_PLACES_H_
