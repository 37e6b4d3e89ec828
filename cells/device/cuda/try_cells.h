// The promise that bits do not depend on company, tried on the very weights and kernels that will serve (design.md, Numbers): a
// node leaves the same bits in a batch of 1, of 7 and of many, first or last in it, by whichever kernel; and leaves them at all.
//
// Load time: a few launches of each cell on the model's own tables, which nobody uses yet; their rows are zeros again
// afterwards. INTERNAL names the cell, the column and the element.
#ifndef CELLBATCH_CELLS_DEVICE_CUDA_TRY_CELLS_H_
#define CELLBATCH_CELLS_DEVICE_CUDA_TRY_CELLS_H_

#include <memory>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "cells/device/cuda/cuda_model.h"
#include "cells/device/cuda/gpu_context.h"
#include "cells/device/cuda/launch_queue.h"

namespace cellbatch::cuda {

// How many nodes a cell is tried with, beside one alone: few, many, and for each kernel that a step may be run by as many as launch it.
// None is more than `most`, of which kernels for more stay untried: tables of so few rows. Pure.
std::set<int> TrialBatches(const CellLaunch& launch, int most);

// `launches`: by type, for `queue`, on which nothing else runs.
absl::Status TryCells(std::shared_ptr<const GpuContext> gpu, LaunchQueue& queue,
                      const CudaModel& model, const std::vector<CellLaunch>& launches);

}  // namespace cellbatch::cuda

#endif  // CELLBATCH_CELLS_DEVICE_CUDA_TRY_CELLS_H_
