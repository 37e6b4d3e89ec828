// One FIFO queue of batched tasks on a Memory. The contract every way of computing keeps (CPU,
// CUDA, simulated), defined by tests/conformance.
//
// 1. Tasks run in the order they were enqueued; each: copies in, cell, copies out, stamps, signal. A device may run several as
//    one launch where that leaves the same: whatever rows they name, it is as if they had run one by one. They are done together.
// 2. A task may read what any earlier task of the same queue wrote.
// 3. int64(Signal() - n) >= 0 means task n is done: its copies out, host columns, rows and stamps are
//    readable on the host (acquire). The first task's number is Signal() + 1 of a new device, wherever
//    that starts. Counters wrap, at the device's own width and at 2^64, without harm.
// 4. Enqueue never waits and takes tasks in order; those it does not take (queue full) are offered
//    again. Task pointers stay valid until done, or until the device was abandoned.
// 5. A row's bits depend on the node's inputs only: not on batch size, position or company. A launch
//    may be wider than its task: nodes beyond it read row 0 and write the trash row (memory.h), and
//    are in no other way there.
// 6. After construction nothing allocates. Called by its worker's thread only, but for info().
// 7. A failed device reports through Health for good; its signal need not move again. What it had
//    taken may still run, and write rows and host memory, until it is abandoned. So may a device that
//    hangs: it takes tasks, its signal stands still, and it does not know.
// 8. Denormals (0 < |x| < 2^-126) are flushed: arithmetic takes them for zeros and makes zeros of them, on every thread
//    that computes, in tasks as at load; copies and lookups keep their bits. Advance computes so on its caller's thread
//    and gives back the mode that it found there.
// 9. Tasks copy from and to memory that the device reaches without waiting (Memory::host_blocks), and
//    so does what the host reads of rows (LoadedModel::host_column).
// 10. BatchedTask::start_ns and end_ns are the device's own: when its first copy in began and when its
//     last copy out was made, for each task, on a clock that runs forward at the pace of the host's
//     (to 1 in 10^3), wherever it starts. No task begins before the one before it ended. Of tasks in one
//     launch the first has all copies in, the last all copies out, and between them one ends and the next
//     begins when its cell does; a task that is measured is in a launch of its own.
// 11. Abandon ends what 7 leaves open: when it returns, no row and no byte of host memory is read or
//     written any more. Until then rows, answers and task memory are held as for a running task.
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
  // Advance() does the work on the caller's thread (CPU). Such a device is not watched for tasks that take too
  // long: nobody is left to notice.
  bool computes_in_advance = false;
  // Tasks that it wants to have, done or not seen to be: with so many it is never idle while there is work. What joins waits for
  // those before it.
  int tasks_in_flight = 2;
  // What it is, as far as the time of a task depends on it: the same text on the same sort of machine at every start, which
  // names neither addresses nor what was measured. Empty: it cannot say.
  std::string kind = {};
  // For people, one line: what it chose for this machine, and what it measured.
  std::string details = {};
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  // Where the task ring lives: memory the device can read (host memory, or mapped pinned memory).
  virtual absl::Span<std::byte> task_memory() = 0;
  // Returns how many of `tasks` it took, from the front.
  virtual int Enqueue(absl::Span<BatchedTask* const> tasks) = 0;
  // Right after Enqueue, and again and again. CPU: computes the next enqueued task here, on the worker's thread. CUDA: launches
  // what was enqueued, several tasks at once where that is more. Simulated: moves virtual time. True if it did work.
  virtual bool Advance() = 0;
  virtual uint64_t Signal() const = 0;
  virtual absl::Status Health() const = 0;
  // Point 11. Once, of a device that failed or hangs; the destructor does the same for any other. After it nothing is
  // called but info(), task_memory() and the destructor. What it may cost is the device's: nothing where tasks run in
  // Advance; where something must be stopped, the time to stop it, at most kMostAbandonNs. A device that cannot be
  // stopped within that ends the process (Check): going on would answer requests whose memory it still writes.
  virtual void Abandon() = 0;
};

inline constexpr int64_t kMostAbandonNs = 10'000'000'000;

// The devices one server computes on, and the memories beneath them, in that order of destruction.
struct DeviceSet {
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<std::unique_ptr<Device>> devices;
};

// "cuda:0, cpu:0-1".
inline std::string NamesOf(const DeviceSet& set) {
  std::string names;
  for (const std::unique_ptr<Device>& device : set.devices) {
    names += (names.empty() ? "" : ", ") + device->info().name;
  }
  return names;
}

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_DEVICE_H_
