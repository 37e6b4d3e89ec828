// The value of --devices, understood:
//
//   auto | cpu          one device over all CPUs this process may use, or as many of them as its control group has time
//                       for; one per NUMA node where there are several
//   cpu:0-1,cpu:2-3     one device for each "cpu:", on those CPUs (also cpu:0,2,cpu:1,3); their threads are pinned, and no
//                       two devices share a CPU
//   cuda                one device for each GPU that CUDA shows
//   cuda:0,cuda:1       one for each "cuda:", on the GPU of that number; the same number twice is two queues on one GPU
//   cpu:0,cuda:0        both kinds
//
// Whether GPUs are there is for who opens them to say. auto has none: a GPU's answers differ from a CPU's in their last
// bits, so who moves a model onto one says so.
//
// Load time, any thread.
#ifndef CELLBATCH_CELLS_DEVICE_PARSE_DEVICES_H_
#define CELLBATCH_CELLS_DEVICE_PARSE_DEVICES_H_

#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/device_kind.h"

namespace cellbatch {

struct DeviceChoice {
  std::vector<std::vector<int>> cpu_sets;  // for CpuDevices
  bool pinned = false;
  std::vector<int> cuda;  // ordinals of GPUs, a device each
  bool every_cuda = false;
  bool any_cuda() const { return every_cuda || !cuda.empty(); }
};

// The first `cores` of `cpus`, node after node, so that few of them share one memory; nothing pinned.
DeviceChoice ChooseCpus(absl::Span<const int> cpus, int cores,
                        absl::FunctionRef<int(int cpu)> node_of);

// INVALID_ARGUMENT names the part that is wrong and what is there.
absl::StatusOr<DeviceChoice> ParseDevices(std::string_view text);
// Of a process that may use the CPUs in `there`.
absl::StatusOr<DeviceChoice> ParseDevices(std::string_view text, absl::Span<const int> there);

// The kinds that it names, whether or not these CPUs are this process's.
absl::StatusOr<DeviceKinds> KindsNamed(std::string_view text);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_PARSE_DEVICES_H_
