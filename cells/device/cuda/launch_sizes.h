// For how many nodes and tasks launches are recorded: powers of two, the least of which a block of a product has anyway. Blocks
// beyond a task's nodes leave at once, or have rows of zeros (wgmma_product.cuh). Pure.
#ifndef CELLBATCH_CELLS_DEVICE_CUDA_LAUNCH_SIZES_H_
#define CELLBATCH_CELLS_DEVICE_CUDA_LAUNCH_SIZES_H_

#include <bit>

#include "cells/kernels/cuda/kernel_abi.h"

namespace cellbatch::cuda {

// What the smallest launch is for: as many as the smallest block of a product in bf16 has.
inline constexpr int kLeastLaunchNodes = 8;
// Of one launch. A task with more nodes is several, one after the other.
inline constexpr int kMostLaunchNodes = 512;

constexpr int LaunchNodes(int size) { return kLeastLaunchNodes << size; }

// Which of the sizes is the least for so many nodes, 1 or more.
constexpr int LaunchSize(int nodes) {
  return std::bit_width(static_cast<unsigned>((nodes - 1) / kLeastLaunchNodes));
}

inline constexpr int kLaunchSizes = LaunchSize(kMostLaunchNodes) + 1;
static_assert(LaunchNodes(kLaunchSizes - 1) == kMostLaunchNodes);

// As many tasks as go of so many that may, 1 or more; and which of the numbers it is.
constexpr int LaunchTasks(int tasks) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(tasks)));
}
constexpr int LaunchTasksNumber(int tasks) {
  return std::bit_width(static_cast<unsigned>(tasks)) - 1;
}
static_assert(LaunchTasks(cuda_abi::kMostTasks) == cuda_abi::kMostTasks);

}  // namespace cellbatch::cuda

#endif  // CELLBATCH_CELLS_DEVICE_CUDA_LAUNCH_SIZES_H_
