#include "cells/device/cuda/cuda_inventory.h"

#include <fmt/format.h>

#include <utility>

#include "absl/status/status.h"

namespace cellbatch::cuda {
namespace {

constexpr int kLongestName = 256;

absl::Status Failed(const CudaApi& api, const char* function, int ordinal, Result result) {
  return absl::InternalError(
      fmt::format("cuda:{}: {}: {}", ordinal, function, DescribeResult(api, result)));
}

absl::StatusOr<FoundGpu> Look(const CudaApi& api, int ordinal) {
  const DriverApi& driver = api.driver;
  DeviceNumber device = 0;
  if (const Result r = driver.device_get(&device, ordinal); r != kSuccess) {
    return Failed(api, "cuDeviceGet", ordinal, r);
  }
  char name[kLongestName] = {};
  if (const Result r = driver.device_name(name, kLongestName, device); r != kSuccess) {
    return Failed(api, "cuDeviceGetName", ordinal, r);
  }
  FoundGpu gpu;
  gpu.name = name;
  for (const auto& [attribute, to] : {std::pair{kComputeMajor, &gpu.compute_major},
                                      std::pair{kComputeMinor, &gpu.compute_minor}}) {
    if (const Result r = driver.device_attribute(to, attribute, device); r != kSuccess) {
      return Failed(api, "cuDeviceGetAttribute", ordinal, r);
    }
  }
  return gpu;
}

}  // namespace

std::string DescribeResult(const CudaApi& api, Result result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (api.driver.error_name(result, &name) != kSuccess || name == nullptr) {
    return fmt::format("error {}", result);
  }
  if (api.driver.error_text(result, &text) != kSuccess || text == nullptr) return name;
  return fmt::format("{} ({})", name, text);
}

std::string DescribeGpus(absl::Span<const FoundGpu> gpus) {
  std::string text;
  for (size_t i = 0; i < gpus.size(); ++i) {
    text += fmt::format("{}cuda:{} ({})", i == 0 ? "" : ", ", i, gpus[i].name);
  }
  return text;
}

absl::StatusOr<std::vector<FoundGpu>> FindGpus(const CudaApi& api) {
  if (const Result r = api.driver.init(0); r != kSuccess) {
    return absl::NotFoundError(
        fmt::format("cuda: {} has no GPU: {}", api.from, DescribeResult(api, r)));
  }
  int count = 0;
  if (const Result r = api.driver.device_count(&count); r != kSuccess) {
    return absl::InternalError(fmt::format("cuda: cuDeviceGetCount: {}", DescribeResult(api, r)));
  }
  if (count == 0) return absl::NotFoundError(fmt::format("cuda: {} has no GPU", api.from));
  std::vector<FoundGpu> gpus;
  for (int i = 0; i < count; ++i) {
    auto gpu = Look(api, i);
    if (!gpu.ok()) return gpu.status();
    gpus.push_back(*std::move(gpu));
  }
  return gpus;
}

}  // namespace cellbatch::cuda
