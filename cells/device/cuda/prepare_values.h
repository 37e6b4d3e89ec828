// What parameters alone make (PreparedParameter), computed once by the very kernels that would compute it for a node, on the
// GPU, and brought to the host, where products of it are packed. Load time; seconds where a model has any, else free.
#ifndef CELLBATCH_CELLS_DEVICE_CUDA_PREPARE_VALUES_H_
#define CELLBATCH_CELLS_DEVICE_CUDA_PREPARE_VALUES_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/cell_type.h"
#include "cells/device/cuda/gpu_context.h"
#include "cells/device/cuda/launch_queue.h"
#include "cells/kernels/cuda/cell_source.h"
#include "cells/program/cell_program.h"

namespace cellbatch::cuda {

// Who computes at load, and what is done to a kernel's text before it is compiled (tests plant bugs there; empty: nothing).
struct LoadTools {
  std::shared_ptr<const GpuContext> gpu;
  LaunchQueue* trial = nullptr;  // on which nothing else runs
  std::function<std::string(std::string)> rewrite;
  Fp32By fp32 = Fp32By::kTensorCores;

  CudaTarget Target() const {
    return {.wgmma = gpu->has_wgmma(), .most_shared = gpu->most_shared(), .fp32 = fp32};
  }
  std::string Text(std::string source) const {
    return rewrite ? rewrite(std::move(source)) : source;
  }
};

using PreparedValues = std::vector<std::vector<float>>;  // by prepared parameter

// By type.
absl::StatusOr<std::vector<PreparedValues>> PrepareValues(const LoadTools& tools,
                                                          const std::vector<CellType>& types,
                                                          const std::vector<CellProgram>& programs);

}  // namespace cellbatch::cuda

#endif  // CELLBATCH_CELLS_DEVICE_CUDA_PREPARE_VALUES_H_
