// What kernels read and nobody writes, gathered on the host and brought to a GPU as one piece of memory: packed weights,
// embeddings, biases. The same array, named twice, lies there once. Load time, one thread.
#ifndef CELLBATCH_CELLS_DEVICE_CUDA_VALUE_STORE_H_
#define CELLBATCH_CELLS_DEVICE_CUDA_VALUE_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/device/cuda/gpu_context.h"
#include "cells/device/cuda/launch_queue.h"

namespace cellbatch::cuda {

class ValueStore {
 public:
  // `values` hold still until they were brought.
  void Add(const float* values, int64_t floats);
  int64_t bytes() const { return bytes_; }
  absl::StatusOr<DeviceBuffer> Bring(std::shared_ptr<const GpuContext> gpu,
                                     LaunchQueue& queue) const;
  // Where the GPU reads what was added as `values`. REQUIRES: it was.
  const float* At(const DeviceBuffer& brought, const float* values) const;

 private:
  struct Piece {
    const float* from;
    int64_t floats;
    int64_t offset;  // bytes behind the start
  };
  std::vector<Piece> pieces_;
  std::map<const float*, int64_t> offsets_;
  int64_t bytes_ = 0;
};

}  // namespace cellbatch::cuda

#endif  // CELLBATCH_CELLS_DEVICE_CUDA_VALUE_STORE_H_
