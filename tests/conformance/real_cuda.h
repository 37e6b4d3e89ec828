// CUDA of this machine, for programs that tests/gpu/check brings there. Looked for in the folder that CELLBATCH_CUDA_LIBRARIES
// names, then where the system finds libraries. Any thread.
#ifndef CELLBATCH_TESTS_CONFORMANCE_REAL_CUDA_H_
#define CELLBATCH_TESTS_CONFORMANCE_REAL_CUDA_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "cells/device/cuda/cuda_api.h"

namespace cellbatch::conformance {

// Loaded by the first call; a process has one.
const absl::StatusOr<std::shared_ptr<const cuda::CudaApi>>& LoadedCuda();

// 0 where CUDA cannot be loaded, too.
size_t NumGpus();

}  // namespace cellbatch::conformance

#endif  // CELLBATCH_TESTS_CONFORMANCE_REAL_CUDA_H_
