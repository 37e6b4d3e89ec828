#include "tests/conformance/real_cuda.h"

#include <cstdlib>
#include <utility>

#include "cells/device/cuda/cuda_inventory.h"

namespace cellbatch::conformance {

const absl::StatusOr<std::shared_ptr<const cuda::CudaApi>>& LoadedCuda() {
  static const absl::StatusOr<std::shared_ptr<const cuda::CudaApi>> api =
      []() -> absl::StatusOr<std::shared_ptr<const cuda::CudaApi>> {
    const char* const folder = std::getenv("CELLBATCH_CUDA_LIBRARIES");
    auto loaded = cuda::LoadCudaApi(folder == nullptr ? "" : folder);
    if (!loaded.ok()) return loaded.status();
    return std::shared_ptr<const cuda::CudaApi>(*std::move(loaded));
  }();
  return api;
}

size_t NumGpus() {
  if (!LoadedCuda().ok()) return 0;
  const auto gpus = cuda::FindGpus(**LoadedCuda());
  return gpus.ok() ? gpus->size() : 0;
}

}  // namespace cellbatch::conformance
