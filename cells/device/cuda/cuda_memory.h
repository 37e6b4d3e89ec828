// The memory of one GPU: models loaded for the devices (queues) that compute there.
//
//   CudaMemory   task kernels | a queue for each device | a queue for loading | pinned blocks, shared by all GPUs of a set
//
// Load compiles with NVRTC and needs no toolkit. Nothing is folded: of a table of sums a GPU would read as much as of weights.
#ifndef CELLBATCH_CELLS_DEVICE_CUDA_CUDA_MEMORY_H_
#define CELLBATCH_CELLS_DEVICE_CUDA_CUDA_MEMORY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/device/cuda/gpu_context.h"
#include "cells/device/cuda/launch_queue.h"
#include "cells/device/cuda/pinned_blocks.h"
#include "cells/device/cuda/prepare_values.h"
#include "cells/device/memory.h"

namespace cellbatch::cuda {

struct CudaMemoryOptions {
  int num_queues = 1;                  // devices that compute here
  QueueOptions queue;                  // of each
  bool choose_signal = true;           // by measurement; else the queue's options say
  Fp32By fp32 = Fp32By::kTensorCores;  // of every model that is loaded
  // Of a kernel's text, before it is compiled: tests plant bugs there. Empty: as it is.
  std::function<std::string(std::string)> rewrite;
};

class CudaMemory final : public Memory {
 public:
  static absl::StatusOr<std::unique_ptr<CudaMemory>> Make(std::shared_ptr<const GpuContext> gpu,
                                                          std::shared_ptr<PinnedBlocks> blocks,
                                                          const CudaMemoryOptions& options);

  DeviceKind kind() const override { return DeviceKind::kGpu; }
  HostBlocks* host_blocks() override { return blocks_.get(); }
  absl::StatusOr<std::unique_ptr<LoadedModel>> Load(const Model& model,
                                                    const RowBudget& budget) override;
  absl::StatusOr<ModelAccount> Account(const Model& model) const override;

  // Of its device with that number, which alone uses it.
  LaunchQueue& queue(int number) const { return *queues_[static_cast<size_t>(number)]; }
  const std::shared_ptr<const GpuContext>& gpu() const { return gpu_; }
  Fp32By fp32() const { return tools_.fp32; }

 private:
  CudaMemory(std::shared_ptr<const GpuContext> gpu, std::shared_ptr<PinnedBlocks> blocks);
  absl::Status Start(const CudaMemoryOptions& options);

  const std::shared_ptr<const GpuContext> gpu_;
  const std::shared_ptr<PinnedBlocks> blocks_;
  TaskKernels kernels_;
  std::vector<std::unique_ptr<LaunchQueue>> queues_;
  std::unique_ptr<LaunchQueue> trial_;
  LoadTools tools_;
};

}  // namespace cellbatch::cuda

#endif  // CELLBATCH_CELLS_DEVICE_CUDA_CUDA_MEMORY_H_
