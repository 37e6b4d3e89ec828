// Which GPUs CUDA shows, for who chooses devices and for the line that says what was found. Nothing is allocated on them.
#ifndef CELLBATCH_CELLS_DEVICE_CUDA_CUDA_INVENTORY_H_
#define CELLBATCH_CELLS_DEVICE_CUDA_CUDA_INVENTORY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/device/cuda/cuda_api.h"

namespace cellbatch::cuda {

struct FoundGpu {
  std::string name;  // "NVIDIA H200"
  int compute_major = 0, compute_minor = 0;
};

// By ordinal. Any thread; the first call of a process starts the driver, some 100 ms. NOT_FOUND: the driver says that there is
// none, and in its words why; INTERNAL: another call of it failed, which one, and why.
absl::StatusOr<std::vector<FoundGpu>> FindGpus(const CudaApi& api);

// "cuda:0 (NVIDIA H200), cuda:1 (NVIDIA H200)"; empty: none.
std::string DescribeGpus(absl::Span<const FoundGpu> gpus);

// "CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)", as far as the driver has words for it.
std::string DescribeResult(const CudaApi& api, Result result);

}  // namespace cellbatch::cuda

#endif  // CELLBATCH_CELLS_DEVICE_CUDA_CUDA_INVENTORY_H_
