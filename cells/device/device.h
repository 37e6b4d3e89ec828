// One FIFO queue of batched tasks on a Memory. The contract every way of computing keeps (CPU,
// CUDA, simulated), defined by tests/conformance.
//
// 1. Tasks run in the order they were enqueued; each: copies in, cell, copies out, signal.
// 2. A task may read what any earlier task of the same queue wrote.
// 3. int64(Signal() - n) >= 0 means task n is done: its copies out, host columns and rows are
//    readable on the host (acquire). The counter wraps at the device's own width without harm.
// 4. Enqueue never waits and takes tasks in order; those it does not take (queue full) are offered
//    again. Task pointers stay valid until done.
// 5. A row's bits depend on the node's inputs only: not on batch size, position or company.
// 6. After construction nothing allocates. Called by its worker's thread only, but for info().
// 7. A failed device reports through Health for good; its signal need not move again.
// 8. Denormals (0 < |x| < 2^-126) are flushed: arithmetic takes them for zeros and makes zeros of them, on every thread
//    that computes, in tasks as at load; copies and lookups keep their bits. Advance computes so on its caller's thread
//    and gives back the mode that it found there.
#ifndef CELLBATCH_CELLS_DEVICE_DEVICE_H_
#define CELLBATCH_CELLS_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cells/device/batched_task.h"
#include "cells/device/memory.h"

namespace cellbatch {

struct DeviceInfo {
  std::string name;  // "cpu:0-1", "cuda:0", "sim:0"
  Memory* memory = nullptr;
  int cores = 1;  // host threads that compute for it, the worker's own included; 0: none
  bool computes_in_advance = false;  // Advance() does the work on the caller's thread (CPU)
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  // Where the task ring lives: memory the device can read (host memory, or mapped pinned memory).
  virtual absl::Span<std::byte> task_memory() = 0;
  // Returns how many of `tasks` it took, from the front.
  virtual int Enqueue(absl::Span<BatchedTask* const> tasks) = 0;
  // CPU: computes the next enqueued task here, on the worker's thread. CUDA: nothing to do.
  // Simulated: moves virtual time. True if it did work.
  virtual bool Advance() = 0;
  virtual uint64_t Signal() const = 0;
  virtual absl::Status Health() const = 0;
};

// The devices one server computes on, and the memories beneath them, in that order of destruction.
struct DeviceSet {
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<std::unique_ptr<Device>> devices;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_DEVICE_H_
