// Brings a model onto one GPU: what is prepared at load is computed there, cells become kernels, weights are packed and
// brought, rows are allocated, launches recorded, and the promise that bits do not depend on company is tried.
//
//   programs --PrepareValues--> prepared parameters
//       |                              |
//       +------AddCellSource-----------+--> text --NVRTC--> module      values --> GPU
//                                                     \                  /
//                                   CellLaunch by type and queue --Capture--> graphs --TryCells--> CudaModel
//
// Load time, control thread, seconds: NVRTC compiles the whole model as one text.
#ifndef CELLBATCH_CELLS_DEVICE_CUDA_MODEL_LOADER_H_
#define CELLBATCH_CELLS_DEVICE_CUDA_MODEL_LOADER_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/device/cuda/cuda_model.h"
#include "cells/device/cuda/prepare_values.h"
#include "cells/device/memory.h"

namespace cellbatch::cuda {

// `queues`: that will run the model. As Memory::Load fails.
absl::StatusOr<std::unique_ptr<LoadedModel>> LoadCudaModel(const LoadTools& tools,
                                                           const std::vector<LaunchQueue*>& queues,
                                                           const Model& model,
                                                           const RowBudget& budget);

}  // namespace cellbatch::cuda

#endif  // CELLBATCH_CELLS_DEVICE_CUDA_MODEL_LOADER_H_
