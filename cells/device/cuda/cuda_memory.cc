#include "cells/device/cuda/cuda_memory.h"

#include <fmt/format.h>

#include <utility>

#include "cells/device/cuda/model_loader.h"
#include "cells/device/load_model.h"
#include "cells/kernels/cuda/cell_source.h"
#include "cells/kernels/cuda/cuda_limits.h"

namespace cellbatch::cuda {

CudaMemory::CudaMemory(std::shared_ptr<const GpuContext> gpu, std::shared_ptr<PinnedBlocks> blocks)
    : gpu_(std::move(gpu)), blocks_(std::move(blocks)) {}

absl::StatusOr<std::unique_ptr<CudaMemory>> CudaMemory::Make(std::shared_ptr<const GpuContext> gpu,
                                                             std::shared_ptr<PinnedBlocks> blocks,
                                                             const CudaMemoryOptions& options) {
  std::unique_ptr<CudaMemory> memory(new CudaMemory(std::move(gpu), std::move(blocks)));
  if (absl::Status s = memory->Start(options); !s.ok()) return s;
  return memory;
}

absl::Status CudaMemory::Start(const CudaMemoryOptions& options) {
  const int tasks = options.queue.tasks_a_launch;
  if (tasks != 1 && tasks != 2 && tasks != cuda_abi::kMostTasks) {
    return absl::InvalidArgumentError(
        fmt::format("tasks_a_launch is {}, allowed are 1, 2 and {}", tasks, cuda_abi::kMostTasks));
  }
  tools_.gpu = gpu_;
  tools_.rewrite = options.rewrite;
  tools_.fp32 = options.fp32;
  auto kernels = TaskKernels::Make(gpu_, tools_.Text(TaskKernelSource()));
  if (!kernels.ok()) return kernels.status();
  kernels_ = *std::move(kernels);
  QueueOptions of_trial;
  auto trial = LaunchQueue::Make(gpu_, kernels_, of_trial);
  if (!trial.ok()) return trial.status();
  trial_ = *std::move(trial);
  tools_.trial = trial_.get();
  for (int q = 0; q < options.num_queues; ++q) {
    auto queue = LaunchQueue::Make(gpu_, kernels_, options.queue);
    if (!queue.ok()) return queue.status();
    if (options.choose_signal) {
      if (absl::Status s = (*queue)->ChooseSignal(); !s.ok()) return s;
    }
    queues_.push_back(*std::move(queue));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LoadedModel>> CudaMemory::Load(const Model& model,
                                                              const RowBudget& budget) {
  std::vector<LaunchQueue*> queues;
  for (const auto& queue : queues_) queues.push_back(queue.get());
  return LoadCudaModel(tools_, queues, model, budget);
}

absl::StatusOr<ModelAccount> CudaMemory::Account(const Model& model) const {
  const auto programs = LowerCells(model, kCudaLimits);
  if (!programs.ok()) return programs.status();
  ModelAccount account;
  account.kernels =
      fmt::format("CUDA, compiled for {} ({})", gpu_->architecture(), gpu_->gpu_name());
  for (const CellProgram& program : *programs) {
    CellAccount& cell = account.types.emplace_back();
    cell.steps.assign(program.steps.size(), "a kernel of its own");
    for (const PreparedParameter& p : program.prepared) {
      cell.prepared.push_back(
          {fmt::format("computed of parameters alone: {} values", p.width), int64_t{p.width} * 4});
    }
  }
  return account;
}

}  // namespace cellbatch::cuda
