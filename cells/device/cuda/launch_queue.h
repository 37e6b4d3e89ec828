// One stream of a GPU, and the ring through which its kernels learn of their tasks (cells/kernels/cuda/kernel_abi.h).
//
//   host                                          GPU
//   NextSlot() -> ring[n % slots]  (pinned)  <--- begin kernel: which nodes, which rows
//   Replay(graph) -----------------------------> begin | steps of the cell | end      one launch, no parameter is set
//                                                begin | steps | steps | end          the same of two slots
//   done() <- signal (pinned) <------------------ last of them
//   stamps(n) (pinned)        <------------------ begin, end
//
// A slot is a task, or a part of a task that has more nodes than a launch. Those of one launch show their signal together. Slots
// are counted from 1 on, here; the counter that the GPU writes has 32 bits and wraps.
//
// Threads: everything that names slots by one thread, the worker's (or whoever loads a model, on a queue of its own); Capture by
// the control thread meanwhile. After Make nothing is allocated, but by Capture.
#ifndef CELLBATCH_CELLS_DEVICE_CUDA_LAUNCH_QUEUE_H_
#define CELLBATCH_CELLS_DEVICE_CUDA_LAUNCH_QUEUE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cells/device/cuda/gpu_context.h"
#include "cells/device/cuda/kernel_module.h"
#include "cells/kernels/cuda/kernel_abi.h"

namespace cellbatch::cuda {

// The kernels of cells/kernels/cuda/task_kernels.cuh, for one GPU.
struct TaskKernels {
  // `source`: TaskKernelSource().
  static absl::StatusOr<TaskKernels> Make(std::shared_ptr<const GpuContext> gpu,
                                          const std::string& source);
  KernelModule module;
  Function begin = nullptr, end = nullptr, signal = nullptr;
};

// Who shows that a slot is done. The paper's is kSignalKernel (BatchMaker section 5); the others save a launch.
enum class SignalBy : uint8_t {
  kEndKernel,     // the last block of the kernel that copies answers out
  kSignalKernel,  // a kernel of its own, behind it
  kStreamWrite,   // the stream itself (cuStreamWriteValue32), behind the graph
};
const char* Name(SignalBy by);

struct QueueOptions {
  int slots = 64;
  int64_t list_ints = int64_t{1} << 18;  // of one slot's lists: what is brought to the GPU
  uint32_t first_signal = 0;             // what the signal shows before the first slot
  SignalBy signal_by = SignalBy::kEndKernel;
  // Steps and end are launched while the kernel before them still runs, and wait for it, where the GPU can do so.
  bool early_launches = true;
  // Of one launch, at most: 1, 2 or 4 (cuda_abi::kMostTasks). Its users' to heed (cuda_device.h).
  int tasks_a_launch = cuda_abi::kMostTasks;
};

// A kernel of a cell's step, as it is launched for any number of nodes.
struct ShapeLaunch {
  Function function = nullptr;
  int threads = 0, blocks_x = 1, nodes_a_block = 1, shared_bytes = 0;
  int most_nodes = 0;
  int cluster = 1;  // a launch has a multiple of so many blocks along nodes
};

// One step of a cell: kernels that leave the same, and what they are told.
struct StepLaunch {
  std::vector<ShapeLaunch> shapes;  // as CudaStep has them
  cuda_abi::StepArgs args = {};
  // The one for a launch of so many nodes.
  const ShapeLaunch& ShapeFor(int nodes) const;
};

// All of a cell type on one queue. `tables`, `outputs`: in the GPU's memory.
struct CellLaunch {
  std::vector<StepLaunch> steps;
  const cuda_abi::CopiedColumn* tables = nullptr;   // by TableId, kMostTableColumns apart
  const cuda_abi::CopiedColumn* outputs = nullptr;  // by ColumnId, of the table that it writes
  int num_outputs = 0;
};

// Launches that were recorded. Belongs to the queue that captured it, which outlives it.
class LaunchGraph {
 public:
  LaunchGraph() = default;
  LaunchGraph(std::shared_ptr<const GpuContext> gpu, GraphExec exec, int tasks)
      : gpu_(std::move(gpu)), exec_(exec), tasks_(tasks) {}
  ~LaunchGraph();
  LaunchGraph(LaunchGraph&& other) noexcept { *this = std::move(other); }
  LaunchGraph& operator=(LaunchGraph&& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(exec_, other.exec_);
    std::swap(tasks_, other.tasks_);
    return *this;
  }
  GraphExec exec() const { return exec_; }
  int tasks() const { return tasks_; }

 private:
  std::shared_ptr<const GpuContext> gpu_;
  GraphExec exec_ = nullptr;
  int tasks_ = 0;
};

class LaunchQueue {
 public:
  // `kernels` outlive it.
  static absl::StatusOr<std::unique_ptr<LaunchQueue>> Make(std::shared_ptr<const GpuContext> gpu,
                                                           const TaskKernels& kernels,
                                                           const QueueOptions& options);
  ~LaunchQueue();  // REQUIRES: what it runs is done, or the GPU is lost
  LaunchQueue(const LaunchQueue&) = delete;
  LaunchQueue& operator=(const LaunchQueue&) = delete;

  // What steps are told: where the task in progress is found, the first one of a launch.
  const cuda_abi::TaskNow* now() const;
  // Begin, steps and end of so many tasks (1 to cuda_abi::kMostTasks) for up to so many nodes each, recorded. The steps of `cell`
  // are told now().
  absl::StatusOr<LaunchGraph> Capture(const CellLaunch& cell, int nodes, int tasks);

  // Slots that can be filled before one is released.
  int room() const { return options_.slots - static_cast<int>(launched_ - released_); }
  // REQUIRES: room() > `ahead`. To be filled before the next launch, for its task of that number, from 0 on.
  cuda_abi::TaskSlot& NextSlot(int ahead = 0) {
    return ring_.as<cuda_abi::TaskSlot>()[Place(launched_ + 1 + static_cast<uint64_t>(ahead))];
  }
  // As many slots as the graph has tasks.
  absl::Status Replay(const LaunchGraph& graph);
  // The same launches, one by one, of one task.
  absl::Status Launch(const CellLaunch& cell, int nodes);

  uint64_t launched() const { return launched_; }  // slots
  // Slots whose signal has shown: all that they wrote for the host is there. Never more than are launched.
  uint64_t done() const;
  // REQUIRES: slot n is done, and not released.
  const cuda_abi::TaskStamps& stamps(uint64_t n) const {
    return stamps_.as<cuda_abi::TaskStamps>()[Place(n)];
  }
  // Nobody asks for slots up to n any more.
  void Release(uint64_t n) { released_ = n; }

  // OK, also while it runs; or how the GPU failed. A call of the driver: about a microsecond.
  absl::Status Health() const;
  // Until all that was launched is done, and released. DEADLINE_EXCEEDED: it does not come.
  absl::Status WaitForAll();
  // Until nothing of it runs any more, whether it failed or not. False: it does not end.
  bool Drain();

  // Copies of load time, behind what was launched; done when they return.
  absl::Status Bring(DevicePtr to, const void* from, int64_t bytes);
  absl::Status Fetch(void* to, DevicePtr from, int64_t bytes);
  absl::Status Zero(DevicePtr at, int64_t bytes);

  // By measurement, how long the signal of an empty task takes each way; the queue signals the fastest way from then on. REQUIRES:
  // nothing was captured.
  absl::Status ChooseSignal();
  // What it found, by SignalBy, from launch to signal; zeros: it was not asked.
  const std::array<int64_t, 3>& signal_ns() const { return signal_ns_; }
  const QueueOptions& options() const { return options_; }

 private:
  LaunchQueue(std::shared_ptr<const GpuContext> gpu, const TaskKernels& kernels,
              const QueueOptions& options);
  absl::Status Allocate();
  absl::Status WriteState();
  absl::Status Synchronize(const char* function, Result result);
  absl::StatusOr<int64_t> MeasureSignal(SignalBy by);
  struct KernelGrid {
    int blocks_x, blocks_y, threads, shared_bytes;
  };
  absl::Status LaunchAll(const CellLaunch& cell, int nodes, int tasks, Stream stream);
  absl::Status LaunchSteps(const CellLaunch& cell, int nodes, int task, Stream stream);
  // `early`: it may begin while the launch before it runs, for whose end it waits itself.
  absl::Status LaunchOne(Function function, const KernelGrid& grid, bool early, Stream stream,
                         void** arguments);
  absl::Status Launched(int tasks);
  size_t Place(uint64_t n) const {
    return static_cast<size_t>((n - 1) % static_cast<uint64_t>(options_.slots));
  }

  const std::shared_ptr<const GpuContext> gpu_;
  const TaskKernels& kernels_;
  QueueOptions options_;
  bool early_launches_ = false;
  Stream stream_ = nullptr, capture_ = nullptr;
  PinnedBuffer ring_, stamps_, signal_;
  DeviceBuffer state_, lists_;
  std::array<int64_t, 3> signal_ns_ = {};
  uint64_t launched_ = 0, released_ = 0;
  mutable uint64_t done_ = 0;
};

}  // namespace cellbatch::cuda

#endif  // CELLBATCH_CELLS_DEVICE_CUDA_LAUNCH_QUEUE_H_
