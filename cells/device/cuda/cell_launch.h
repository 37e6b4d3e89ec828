// A cell's kernels with everything that their parameters name: where its columns, values, scratch and tokens lie. Load time.
#ifndef CELLBATCH_CELLS_DEVICE_CUDA_CELL_LAUNCH_H_
#define CELLBATCH_CELLS_DEVICE_CUDA_CELL_LAUNCH_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "cells/device/cuda/gpu_context.h"
#include "cells/device/cuda/kernel_module.h"
#include "cells/device/cuda/launch_queue.h"
#include "cells/kernels/cuda/cell_source.h"
#include "cells/program/cell_program.h"

namespace cellbatch::cuda {

// What nodes need between the steps of a program: enough for any of several.
struct ScratchSpace {
  static absl::StatusOr<ScratchSpace> Make(std::shared_ptr<const GpuContext> gpu,
                                           const std::vector<CellProgram>& programs, int nodes);
  static int64_t BytesFor(const std::vector<CellProgram>& programs, int nodes);
  DeviceBuffer floats, rounded, tokens;  // `rounded`: floats as bf16, of programs in bf16
  int nodes = 0;
};

struct CellPlaces {
  // Row r of a column of an input or output, `offset` included.
  absl::FunctionRef<cuda_abi::ColumnView(const Place& place)> column;
  absl::FunctionRef<const float*(const CudaValue& value)> value;
  const ScratchSpace& scratch;
  const cuda_abi::TaskNow* now;  // of the queue that will run it
};

// Steps only: what is copied in and out is for the caller to add.
absl::StatusOr<CellLaunch> MakeCellLaunch(const CudaCell& cell, const CellProgram& program,
                                          const KernelModule& module, const CellPlaces& places);

}  // namespace cellbatch::cuda

#endif  // CELLBATCH_CELLS_DEVICE_CUDA_CELL_LAUNCH_H_
