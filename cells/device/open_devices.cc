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

absl::StatusOr<std::vector<cuda::FoundGpu>> FindGpus(const std::string& libraries) {
  const auto api = cuda::LoadCudaApi(libraries);
  if (!api.ok()) return api.status();
  return cuda::FindGpus(**api);
}

// Behind the devices that auto chose.
std::string OtherwiseThere(const std::string& libraries) {
  const auto gpus = FindGpus(libraries);
  if (!gpus.ok()) return fmt::format("; no GPU: {}", std::string(gpus.status().message()));
  return fmt::format("; not used: {} (--devices=cuda computes on GPUs)", cuda::DescribeGpus(*gpus));
}

// The ordinals that are asked for, if all are there.
absl::StatusOr<std::vector<int>> Ordinals(const DeviceChoice& choice, std::string_view devices,
                                          const std::string& libraries) {
  const auto gpus = FindGpus(libraries);
  if (!gpus.ok()) {
    return absl::Status(gpus.status().code(), fmt::format("devices: \"{}\": {}", devices,
                                                          std::string(gpus.status().message())));
  }
  const int there = static_cast<int>(gpus->size());
  std::vector<int> ordinals = choice.cuda;
  for (int i = 0; choice.every_cuda && i < there; ++i) ordinals.push_back(i);
  for (const int ordinal : ordinals) {
    if (ordinal < there) continue;
    return absl::InvalidArgumentError(fmt::format("devices: \"cuda:{}\" is not there; there is {}",
                                                  ordinal, cuda::DescribeGpus(*gpus)));
  }
  return ordinals;
}

void Add(DeviceSet more, DeviceSet& set) {
  std::move(more.memories.begin(), more.memories.end(), std::back_inserter(set.memories));
  std::move(more.devices.begin(), more.devices.end(), std::back_inserter(set.devices));
}

std::string Names(const DeviceSet& set) {
  std::string names;
  for (const auto& device : set.devices) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", device->info().name);
  }
  return names;
}

}  // namespace

absl::StatusOr<OpenedDevices> OpenDevices(std::string_view devices, OpenOptions options) {
  const auto choice = ParseDevices(devices);
  if (!choice.ok()) return choice.status();
  OpenedDevices opened;
  if (choice->any_cuda()) {
    const auto ordinals = Ordinals(*choice, devices, options.cuda_libraries);
    if (!ordinals.ok()) return ordinals.status();
    return absl::UnimplementedError(
        fmt::format("devices: \"{}\": this build has no CUDA device", devices));
  }
  if (!choice->cpu_sets.empty()) {
    options.cpu.pin_threads = choice->pinned;
    auto cpus = CpuDevices(choice->cpu_sets, options.cpu);
    if (!cpus.ok()) return cpus.status();
    Add(*std::move(cpus), opened.set);
  }
  opened.bits_differ = choice->any_cuda() && !choice->cpu_sets.empty();
  opened.found = Names(opened.set);
  if (devices == "auto") opened.found += OtherwiseThere(options.cuda_libraries);
  return opened;
}

}  // namespace cellbatch
