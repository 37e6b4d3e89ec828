// Some CPU cores as one device: Advance computes one task on the worker's own thread, with helper threads on the other
// cores pulling column blocks (design.md: split the columns of one step, do not give each core its own batch).
//
//   Enqueue -> [ring of task pointers] -> Advance: copies in | RunCell | copies out | Signal = sequence (release)
//
// A task runs within one call of Advance, helpers and all, so between calls nothing is written: Abandon has nothing to
// wait for. For the same reason nobody notices a task that does not come back (device.h, computes_in_advance).
// It reaches all host memory, stamps tasks with the steady clock, and never launches wider than its task.
//
// Threads: Enqueue and Advance by the worker; Signal by any. After construction nothing allocates.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_CPU_DEVICE_H_
#define CELLBATCH_CELLS_DEVICE_CPU_CPU_DEVICE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/device/cpu/core_team.h"
#include "cells/device/cpu/cpu_memory.h"
#include "cells/device/cpu/cpu_topology.h"
#include "cells/device/cpu/mapped_memory.h"
#include "cells/device/cpu/step_split.h"
#include "cells/device/device.h"
#include "cells/kernels/cpu/product.h"

namespace cellbatch {

struct CpuOptions {
  int64_t fold_budget_bytes = int64_t{1} << 30;  // folded tables of all models; 0: none
  int queue_capacity = 64;  // tasks enqueued and not computed; more: Enqueue takes fewer
  int64_t task_memory_bytes = int64_t{32} << 20;  // where the task ring lives
  // How long a helper without work spins before it parks (a parked one takes some 25 us to wake).
  std::chrono::nanoseconds spin = std::chrono::microseconds(100);
  // Helpers and, at its first Advance, the worker's thread, each to a CPU. Where CPUs are of several nodes they stay among
  // those of their device in any case.
  bool pin_threads = false;
  // Kernels to use; null: the fastest this CPU can run.
  const kernels::CpuKernels* kernels = nullptr;
  uint64_t first_sequence = 1;  // of its first task: tests start just below where counters wrap
  // What MeasureCpu finds, and whether each device measures what splitting a step over its cores costs, some 6 ms; results
  // do not depend on either.
  kernels::Tuning tuning = {};
  bool measure_split = false;
  std::function<int(int cpu)> node_of = NumaNodeOf;  // tests have nodes that are none
};

// What is of this machine in `options`, measured on the calling thread, about 0.2 s; takes no more than a quarter of the
// memory there is. Programs do, tests need not.
void MeasureCpu(CpuOptions& options);

// Whether devices made with them compute Precision::kFp32Split as such: where the CPU has tile registers.
bool SplitsFp32(const CpuOptions& options);

class CpuDevice final : public Device {
 public:
  // `number`: which of its memory's devices this is. `cpus`: one a core; REQUIRES: not empty. `stay`: where threads are not
  // pinned, those that compute stay among `cpus`; its helpers do if its maker does.
  CpuDevice(CpuMemory* memory, int number, MappedMemory task_memory, std::vector<int> cpus,
            const CpuOptions& options, bool stay);

  const DeviceInfo& info() const override { return info_; }
  absl::Span<std::byte> task_memory() override {
    return {task_memory_.data(), static_cast<size_t>(task_memory_.size())};
  }
  int Enqueue(absl::Span<BatchedTask* const> tasks) override;
  bool Advance() override;
  uint64_t Signal() const override { return signal_.load(std::memory_order_acquire); }
  absl::Status Health() const override { return absl::OkStatus(); }
  void Abandon() override { head_ = tail_; }

 private:
  void Compute(const BatchedTask& task);

  DeviceInfo info_;
  const int number_;
  MappedMemory task_memory_;
  const std::vector<int> stays_on_;  // the worker's thread; none: anywhere
  bool stays_ = false;               // since its first Advance
  CoreTeam team_;
  SplitCosts costs_;
  std::vector<kernels::ProductScratch> product_scratch_;  // by thread
  std::vector<BatchedTask*> queue_;                       // ring
  uint64_t head_ = 0, tail_ = 0;                          // computed, enqueued
  std::byte before_signal_[128];                          // others poll it: a cache line of its own
  std::atomic<uint64_t> signal_;
};

// One device for each set of CPUs (sets may overlap: then they share those cores), one memory for the devices of each
// NUMA node (of the first CPU of each set), made, loaded and computed on there. INVALID_ARGUMENT: no sets, or an empty one.
absl::StatusOr<DeviceSet> CpuDevices(absl::Span<const std::vector<int>> cpu_sets,
                                     const CpuOptions& options);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_CPU_DEVICE_H_
