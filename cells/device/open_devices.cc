#include "cells/device/open_devices.h"

#include <fmt/format.h>

#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cells/device/cuda/cuda_api.h"
#include "cells/device/cuda/cuda_inventory.h"
#include "cells/device/parse_devices.h"

namespace cellbatch {
namespace {

// Behind the devices that auto chose.
std::string OtherwiseThere(const std::string& libraries) {
  const auto api = cuda::LoadCudaApi(libraries);
  const auto gpus = api.ok() ? cuda::FindGpus(**api) : api.status();
  if (!gpus.ok()) return fmt::format("; no GPU: {}", std::string(gpus.status().message()));
  return fmt::format("; not used: {} (--devices=cuda computes on GPUs)", cuda::DescribeGpus(*gpus));
}

// The GPUs that are asked for, if all are there.
absl::StatusOr<DeviceSet> OpenGpus(const DeviceChoice& choice, const OpenOptions& options) {
  auto api = cuda::LoadCudaApi(options.cuda_libraries);
  if (!api.ok()) return api.status();
  const auto gpus = cuda::FindGpus(**api);
  if (!gpus.ok()) return gpus.status();
  const int there = static_cast<int>(gpus->size());
  std::vector<int> ordinals = choice.cuda;
  for (int i = 0; choice.every_cuda && i < there; ++i) ordinals.push_back(i);
  return cuda::CudaDevices(*std::move(api), ordinals, options.cuda);
}

void Add(DeviceSet more, DeviceSet& set) {
  std::move(more.memories.begin(), more.memories.end(), std::back_inserter(set.memories));
  std::move(more.devices.begin(), more.devices.end(), std::back_inserter(set.devices));
}

}  // namespace

DeviceKinds OpenedDevices::kinds() const {
  DeviceKinds kinds{.cpu = false, .gpu = false};
  for (const auto& memory : set.memories) {
    (memory->kind() == DeviceKind::kCpu ? kinds.cpu : kinds.gpu) = true;
  }
  return kinds;
}

absl::StatusOr<OpenedDevices> OpenDevices(std::string_view devices, OpenOptions options) {
  const auto choice = ParseDevices(devices);
  if (!choice.ok()) return choice.status();
  OpenedDevices opened;
  if (choice->any_cuda()) {
    auto gpus = OpenGpus(*choice, options);
    if (!gpus.ok()) {
      return absl::Status(gpus.status().code(), fmt::format("devices: \"{}\": {}", devices,
                                                            std::string(gpus.status().message())));
    }
    Add(*std::move(gpus), opened.set);
  }
  if (!choice->cpu_sets.empty()) {
    options.cpu.pin_threads = choice->pinned;
    auto cpus = CpuDevices(choice->cpu_sets, options.cpu);
    if (!cpus.ok()) return cpus.status();
    Add(*std::move(cpus), opened.set);
    opened.splits_fp32 = SplitsFp32(options.cpu);
  }
  opened.found = NamesOf(opened.set);
  if (devices == "auto") opened.found += OtherwiseThere(options.cuda_libraries);
  return opened;
}

}  // namespace cellbatch
