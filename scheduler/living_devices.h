// Which of a scheduler's devices are left, by memory, and whether a model finds one of them.
//
//   Model::devices --MemoriesOf--> memories --NumLeft, Health, CheckAnyFor--> what of them is left, or why nothing is
//
// Owns nothing; what it looks at outlives it. Any thread; a few atomics a call.
#ifndef CELLBATCH_SCHEDULER_LIVING_DEVICES_H_
#define CELLBATCH_SCHEDULER_LIVING_DEVICES_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "cells/device/device.h"
#include "cells/device_kind.h"
#include "cells/model.h"
#include "scheduler/lane_memories.h"
#include "scheduler/worker.h"

namespace cellbatch {

class LivingDevices {
 public:
  // memory_of, workers: by device.
  LivingDevices(const DeviceSet& set, const std::vector<int>& memory_of,
                const std::vector<std::unique_ptr<Worker>>& workers)
      : set_(set), memory_of_(memory_of), workers_(workers) {}

  MemorySet MemoriesOf(DeviceKinds kinds) const;
  int NumLeft(MemorySet memories) const;
  // OK while all devices of these memories are well; else the first failed one's status.
  absl::Status Health(MemorySet memories = ~MemorySet{0}) const;
  // FAILED_PRECONDITION: there never was a device for that model, and what there is. UNAVAILABLE: none is left, and why.
  absl::Status CheckAnyFor(const Model& model) const;

 private:
  const DeviceSet& set_;
  const std::vector<int>& memory_of_;
  const std::vector<std::unique_ptr<Worker>>& workers_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_LIVING_DEVICES_H_
