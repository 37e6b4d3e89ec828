// The value of --devices, understood:
//
//   auto | cpu          one device over all CPUs this process may use, or as many of them as its control group has time
//                       for; one per NUMA node where there are several
//   cpu:0-1,cpu:2-3     one device for each "cpu:", on those CPUs (also cpu:0,2,cpu:1,3); their threads are pinned
//
// Load time, any thread.
#ifndef CELLBATCH_CELLS_DEVICE_PARSE_DEVICES_H_
#define CELLBATCH_CELLS_DEVICE_PARSE_DEVICES_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace cellbatch {

struct DeviceChoice {
  std::vector<std::vector<int>> cpu_sets;  // for CpuDevices
  bool pinned = false;
};

// The first `cores` of `cpus`, node after node, so that few of them share one memory; nothing pinned.
DeviceChoice ChooseCpus(absl::Span<const int> cpus, int cores);

// INVALID_ARGUMENT names the part that is wrong and what is there; UNIMPLEMENTED for devices this build has not.
absl::StatusOr<DeviceChoice> ParseDevices(std::string_view text);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_PARSE_DEVICES_H_
