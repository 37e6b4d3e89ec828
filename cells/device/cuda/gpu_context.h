// One GPU as this process has it: its primary context, what it costs to call it rightly, and memory that is given back by
// itself. Everything that computes on the GPU shares one of these.
//
//   GpuContext --Use()--> current on this thread        DeviceBuffer   bytes of the GPU
//        |                                              PinnedBuffer   bytes of this machine that every GPU reaches
//        +-- Called("cuMemAlloc", result) --> Status
//
// Any thread. Allocating costs up to milliseconds and may wait for what runs on the GPU: at load only.
#ifndef CELLBATCH_CELLS_DEVICE_CUDA_GPU_CONTEXT_H_
#define CELLBATCH_CELLS_DEVICE_CUDA_GPU_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cells/device/cuda/cuda_api.h"

namespace cellbatch::cuda {

class GpuContext {
 public:
  // UNIMPLEMENTED: a GPU that our kernels do not run on.
  static absl::StatusOr<std::shared_ptr<const GpuContext>> Open(std::shared_ptr<const CudaApi> api,
                                                                int ordinal);
  ~GpuContext();
  GpuContext(const GpuContext&) = delete;
  GpuContext& operator=(const GpuContext&) = delete;

  // Before a thread calls the driver. Free where this GPU is the last that the thread used.
  absl::Status Use() const;
  // OK, RESOURCE_EXHAUSTED (no memory) or INTERNAL: "cuda:0: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  absl::Status Called(const char* function, Result result) const;

  const CudaApi& api() const { return *api_; }
  const DriverApi& driver() const { return api_->driver; }
  const std::string& name() const { return name_; }  // "cuda:0"
  // "sm_90", and how it is called by people: "NVIDIA H200".
  const std::string& architecture() const { return architecture_; }  // as NVRTC is told
  bool has_wgmma() const { return has_wgmma_; }
  // Bytes of shared memory that a block may have.
  int most_shared() const { return most_shared_; }
  // A kernel can be launched before the one before it has ended, also as part of a graph.
  bool has_early_launches() const { return has_early_launches_; }
  const std::string& gpu_name() const { return gpu_name_; }
  absl::StatusOr<int64_t> AvailableBytes() const;

 private:
  GpuContext(std::shared_ptr<const CudaApi> api, int ordinal);
  absl::Status Start(int ordinal);

  const std::shared_ptr<const CudaApi> api_;
  const uint64_t number_;
  const std::string name_;
  std::string architecture_, gpu_name_;
  bool has_wgmma_ = false, has_early_launches_ = false;
  int most_shared_ = 0;
  DeviceNumber device_ = 0;
  Context context_ = nullptr;
};

// Memory of the GPU; empty where nothing was asked for. What is in it is anything.
class DeviceBuffer {
 public:
  static absl::StatusOr<DeviceBuffer> Make(std::shared_ptr<const GpuContext> gpu, int64_t bytes);
  DeviceBuffer() = default;
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(at_, other.at_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  DevicePtr at() const { return at_; }
  // As kernels see it: never read or written by the host.
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(at_);
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<const GpuContext> gpu_;
  DevicePtr at_ = 0;
  int64_t bytes_ = 0;
};

// Memory of the host that stays where it is, and that kernels of every GPU reach by the same address. Zeros.
class PinnedBuffer {
 public:
  static absl::StatusOr<PinnedBuffer> Make(std::shared_ptr<const GpuContext> gpu, int64_t bytes);
  PinnedBuffer() = default;
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(at_, other.at_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return static_cast<std::byte*>(at_); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(at_);
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<const GpuContext> gpu_;
  void* at_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace cellbatch::cuda

#endif  // CELLBATCH_CELLS_DEVICE_CUDA_GPU_CONTEXT_H_
