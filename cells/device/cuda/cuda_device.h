// One queue of one GPU as a device: tasks are launches of recorded graphs (cuda_model.h), its signal a counter in pinned
// memory that the GPU writes, so that nobody waits in the driver.
//
//   worker            Advance: slots of the ring, cuGraphLaunch               Signal: reads the counter, takes over stamps
//   GPU               begin | steps | end -> answers, mirrors, stamps, counter
//
//   tasks    [   7   ][      8 (1,200 nodes)      ][  9  ][ 10  ][ 11 ][ 12 ]  13 ..
//   slots    [  21   ][  22   ][  23   ][  24     ][ 25  ][ 26  ][ 27 ][ 28 ]
//   launches [  one  ][  one  ][  one  ][  one    ][  one, of four tasks    ]  kept
//
// A task of more nodes than a launch has is several launches. The other way, a launch has as many tasks of a type as stand one behind
// the other (QueueOptions::tasks_a_launch) and may go together (group_rows.h), but nobody waits for them: launches are made at
// once while fewer than two are in progress. What comes while two are is kept until one of them is done, so tasks go together
// where there is a queue of them, and alone where there is none. Tasks that are measured always go alone.
//
// Health: what the driver says of the stream, asked at most every kHealthNs while tasks are in progress. A GPU that hangs is
// noticed by the worker's limit (BatchedTask::limit_ns). Abandon waits for the stream to run dry; a kernel cannot be stopped, so
// where it does not, the process ends.
//
// Threads: the worker's, but for info(). After construction nothing allocates.
#ifndef CELLBATCH_CELLS_DEVICE_CUDA_CUDA_DEVICE_H_
#define CELLBATCH_CELLS_DEVICE_CUDA_CUDA_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/device/cuda/cuda_api.h"
#include "cells/device/cuda/cuda_memory.h"
#include "cells/device/device.h"

namespace cellbatch::cuda {

struct CudaOptions {
  int64_t task_memory_bytes = int64_t{32} << 20;  // of each device: where its task ring lives
  // Pinned memory for what requests bring and are answered with, of all devices together.
  int64_t host_block_bytes = int64_t{256} << 20;
  uint64_t first_sequence =
      1;  // of each device's first task: tests start just below where counters wrap
  CudaMemoryOptions memory;  // but for num_queues
};

class CudaDevice final : public Device {
 public:
  // `number`: which of its memory's devices this is.
  CudaDevice(CudaMemory* memory, int number, PinnedBuffer task_memory, uint64_t first_sequence);
  ~CudaDevice() override;

  const DeviceInfo& info() const override { return info_; }
  absl::Span<std::byte> task_memory() override {
    return {task_memory_.data(), static_cast<size_t>(task_memory_.bytes())};
  }
  int Enqueue(absl::Span<BatchedTask* const> tasks) override;
  bool Advance() override;
  uint64_t Signal() const override;
  absl::Status Health() const override { return health_; }
  void Abandon() override;
  // Made so far, of one task or several: any thread.
  int64_t launches() const { return launches_.load(std::memory_order_relaxed); }

 private:
  struct Taken {
    BatchedTask* task;
    uint64_t first_slot, last_slot;  // once it is launched
  };
  void LaunchKept();
  bool MayLaunch() const;
  int Together() const;
  absl::Status LaunchLarge();
  absl::Status Launch(int tasks);
  void TakeOverStamps() const;
  Taken& InProgress(uint64_t n) const { return taken_[static_cast<size_t>(n) % taken_.size()]; }

  DeviceInfo info_;
  const int number_;
  LaunchQueue& queue_;
  PinnedBuffer task_memory_;
  absl::Status health_;
  int64_t asked_ns_ = 0;  // when the driver was asked for the queue's health
  bool abandoned_ = false;
  // A ring of those that are taken and not done, as many as there are slots: head_ to launched_ in progress, to tail_ kept.
  mutable std::vector<Taken> taken_;
  uint64_t tail_ = 0, launched_ = 0;
  mutable uint64_t head_ = 0;
  std::atomic<int64_t> launches_ = 0;
  // Last slots of the latest launch, and of the one before it.
  uint64_t last_end_ = 0, end_before_ = 0;
  mutable uint64_t signal_;
};

// A device for each of `ordinals` (the same one twice: two queues of one GPU), a memory for each GPU. INVALID_ARGUMENT: there is
// no such GPU; UNIMPLEMENTED: it is too old; RESOURCE_EXHAUSTED, INTERNAL: as the driver says.
absl::StatusOr<DeviceSet> CudaDevices(std::shared_ptr<const CudaApi> api,
                                      absl::Span<const int> ordinals, const CudaOptions& options);

}  // namespace cellbatch::cuda

#endif  // CELLBATCH_CELLS_DEVICE_CUDA_CUDA_DEVICE_H_
