// Kernels as text, compiled by NVRTC for one GPU and loaded there. Load time: seconds for a large model; any thread.
#ifndef CELLBATCH_CELLS_DEVICE_CUDA_KERNEL_MODULE_H_
#define CELLBATCH_CELLS_DEVICE_CUDA_KERNEL_MODULE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/device/cuda/gpu_context.h"

namespace cellbatch::cuda {

// The machine code of a source for "sm_90". INTERNAL: the compiler's words, as they matter to whoever wrote the generator.
absl::StatusOr<std::vector<char>> CompileKernels(const CudaApi& api, const std::string& source,
                                                 const std::string& architecture);

class KernelModule {
 public:
  // CompileKernels, and loaded.
  static absl::StatusOr<KernelModule> Make(std::shared_ptr<const GpuContext> gpu,
                                           const std::string& source);
  KernelModule() = default;
  ~KernelModule();
  KernelModule(KernelModule&& other) noexcept { *this = std::move(other); }
  KernelModule& operator=(KernelModule&& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(module_, other.module_);
    return *this;
  }

  // Ready to be launched with so many bytes of dynamic shared memory.
  absl::StatusOr<Function> Find(const std::string& name, int shared_bytes) const;

 private:
  std::shared_ptr<const GpuContext> gpu_;
  Module module_ = nullptr;
};

}  // namespace cellbatch::cuda

#endif  // CELLBATCH_CELLS_DEVICE_CUDA_KERNEL_MODULE_H_
