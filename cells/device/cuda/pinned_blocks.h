// Host blocks (memory.h) in memory that every GPU reaches: one stretch of it, taken at load, since taking more while kernels
// run may wait for them. What requests bring and are answered with lies here.
//
// Any thread; a block costs some 20 ns, and threads on different CPUs seldom meet (sharded_heap.h, which also says when it
// costs more). What is free is found whoever freed it: null comes only when no piece so large is left.
#ifndef CELLBATCH_CELLS_DEVICE_CUDA_PINNED_BLOCKS_H_
#define CELLBATCH_CELLS_DEVICE_CUDA_PINNED_BLOCKS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "cells/device/cuda/gpu_context.h"
#include "cells/device/cuda/sharded_heap.h"
#include "cells/device/memory.h"

namespace cellbatch::cuda {

class PinnedBlocks final : public HostBlocks {
 public:
  // RESOURCE_EXHAUSTED: this machine has no so much memory that can be pinned.
  static absl::StatusOr<std::shared_ptr<PinnedBlocks>> Make(std::shared_ptr<const GpuContext> gpu,
                                                            int64_t bytes);

  std::byte* Allocate(int64_t bytes) override;
  void Free(std::byte* block, int64_t bytes) override;
  int64_t free_bytes();  // of all blocks together; slow, for tests

 private:
  explicit PinnedBlocks(PinnedBuffer memory);

  PinnedBuffer memory_;
  ShardedHeap heap_;  // of that
};

}  // namespace cellbatch::cuda

#endif  // CELLBATCH_CELLS_DEVICE_CUDA_PINNED_BLOCKS_H_
