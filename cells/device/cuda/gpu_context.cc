#include "cells/device/cuda/gpu_context.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>

#include "cells/device/cuda/cuda_inventory.h"

namespace cellbatch::cuda {
namespace {

constexpr int kLeastMajor = 8;  // copies to shared memory that run beside the arithmetic (cp.async)
constexpr int kEarlyLaunchMajor = 9, kEarlyLaunchDriver = 12'030;  // of which graphs take them over

// Which one this thread used last, by a number that no other ever gets: a driver's handles come again.
std::atomic<uint64_t> opened = 0;
thread_local uint64_t current = 0;

}  // namespace

GpuContext::GpuContext(std::shared_ptr<const CudaApi> api, int ordinal)
    : api_(std::move(api)),
      number_(opened.fetch_add(1) + 1),
      name_(fmt::format("cuda:{}", ordinal)) {}

absl::StatusOr<std::shared_ptr<const GpuContext>> GpuContext::Open(
    std::shared_ptr<const CudaApi> api, int ordinal) {
  const auto gpus = FindGpus(*api);
  if (!gpus.ok()) return gpus.status();
  if (ordinal < 0 || ordinal >= static_cast<int>(gpus->size())) {
    return absl::InvalidArgumentError(
        fmt::format("cuda:{} is not there; there is {}", ordinal, DescribeGpus(*gpus)));
  }
  const FoundGpu& found = (*gpus)[static_cast<size_t>(ordinal)];
  if (found.compute_major < kLeastMajor) {
    return absl::UnimplementedError(
        fmt::format("cuda:{} ({}) has compute capability {}.{}, the least is {}.0", ordinal,
                    found.name, found.compute_major, found.compute_minor, kLeastMajor));
  }
  std::shared_ptr<GpuContext> gpu(new GpuContext(std::move(api), ordinal));
  // Hopper's matrix instructions are that architecture's alone.
  gpu->has_wgmma_ = found.compute_major == 9 && found.compute_minor == 0;
  gpu->architecture_ = fmt::format("sm_{}{}{}", found.compute_major, found.compute_minor,
                                   gpu->has_wgmma_ ? "a" : "");
  gpu->gpu_name_ = found.name;
  int driver_version = 0;
  const Result told = gpu->driver().driver_version(&driver_version);
  if (absl::Status s = gpu->Called("cuDriverGetVersion", told); !s.ok()) return s;
  gpu->has_early_launches_ =
      found.compute_major >= kEarlyLaunchMajor && driver_version >= kEarlyLaunchDriver;
  if (absl::Status s = gpu->Start(ordinal); !s.ok()) return s;
  return gpu;
}

absl::Status GpuContext::Start(int ordinal) {
  if (absl::Status s = Called("cuDeviceGet", driver().device_get(&device_, ordinal)); !s.ok()) {
    return s;
  }
  const Result told = driver().device_attribute(&most_shared_, kMostSharedOptin, device_);
  if (absl::Status s = Called("cuDeviceGetAttribute", told); !s.ok()) return s;
  const Result retained = driver().context_retain(&context_, device_);
  if (retained != kSuccess) context_ = nullptr;
  return Called("cuDevicePrimaryCtxRetain", retained);
}

GpuContext::~GpuContext() {
  if (context_ != nullptr) driver().context_release(device_);
}

absl::Status GpuContext::Use() const {
  if (current == number_) return absl::OkStatus();
  absl::Status used = Called("cuCtxSetCurrent", driver().context_set(context_));
  if (used.ok()) current = number_;
  return used;
}

absl::Status GpuContext::Called(const char* function, Result result) const {
  if (result == kSuccess) return absl::OkStatus();
  const std::string what =
      fmt::format("{}: {}: {}", name_, function, DescribeResult(*api_, result));
  return result == kOutOfMemory ? absl::ResourceExhaustedError(what) : absl::InternalError(what);
}

absl::StatusOr<int64_t> GpuContext::AvailableBytes() const {
  if (absl::Status s = Use(); !s.ok()) return s;
  size_t free = 0, total = 0;
  if (absl::Status s = Called("cuMemGetInfo", driver().memory_info(&free, &total)); !s.ok()) {
    return s;
  }
  return static_cast<int64_t>(free);
}

absl::StatusOr<DeviceBuffer> DeviceBuffer::Make(std::shared_ptr<const GpuContext> gpu,
                                                int64_t bytes) {
  DeviceBuffer buffer;
  if (bytes == 0) return buffer;
  if (absl::Status s = gpu->Use(); !s.ok()) return s;
  const Result made = gpu->driver().alloc(&buffer.at_, static_cast<size_t>(bytes));
  if (absl::Status s = gpu->Called("cuMemAlloc", made); !s.ok()) {
    buffer.at_ = 0;
    return absl::Status(s.code(), fmt::format("{}: {} bytes", std::string(s.message()), bytes));
  }
  buffer.bytes_ = bytes;
  buffer.gpu_ = std::move(gpu);
  return buffer;
}

DeviceBuffer::~DeviceBuffer() {
  if (at_ == 0 || !gpu_->Use().ok()) return;
  gpu_->driver().free(at_);  // of a GPU that is lost it fails, and there is nothing to give back
}

absl::StatusOr<PinnedBuffer> PinnedBuffer::Make(std::shared_ptr<const GpuContext> gpu,
                                                int64_t bytes) {
  PinnedBuffer buffer;
  if (bytes == 0) return buffer;
  if (absl::Status s = gpu->Use(); !s.ok()) return s;
  const Result made = gpu->driver().host_alloc(&buffer.at_, static_cast<size_t>(bytes),
                                               kHostAllocPortable | kHostAllocDeviceMap);
  if (absl::Status s = gpu->Called("cuMemHostAlloc", made); !s.ok()) {
    buffer.at_ = nullptr;
    return absl::Status(s.code(), fmt::format("{}: {} bytes", std::string(s.message()), bytes));
  }
  std::memset(buffer.at_, 0, static_cast<size_t>(bytes));
  buffer.bytes_ = bytes;
  buffer.gpu_ = std::move(gpu);
  return buffer;
}

PinnedBuffer::~PinnedBuffer() {
  if (at_ == nullptr || !gpu_->Use().ok()) return;
  gpu_->driver().host_free(at_);
}

}  // namespace cellbatch::cuda
