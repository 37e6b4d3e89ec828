#include "cells/device/cuda/launch_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>

#include "cells/device/device.h"
#include "cells/device/signal.h"

namespace cellbatch::cuda {
namespace {

using cuda_abi::CopiedColumn;
using cuda_abi::kBeginSharedBytes;
using cuda_abi::kTaskThreads;
using cuda_abi::QueueState;
using cuda_abi::TaskSlot;
using cuda_abi::TaskStamps;

// Of the kernels that begin and end. A block of begin has 16 KiB of rows under way, so that 4 keep the way to host memory busy (some
// 50 GB/s, a microsecond long); 16 ask for all lists of 512 nodes at once. More would only draw more tickets.
constexpr int kNodesABlock = 8, kFewestBlocks = 4, kMostBlocks = 16;
constexpr int64_t kMostLoadWaitNs =
    120'000'000'000;                  // a cell tried at load, on the slowest machine
constexpr int kMeasuredSignals = 20;  // of each way; the median counts
constexpr auto kNap = std::chrono::microseconds(20);
constexpr int64_t kSpinNs = 200'000;

int64_t SteadyNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Until `ended` says so; false: not within `most_ns`. Spins first: what it waits for mostly takes microseconds.
template <typename Ended>
bool WaitUntil(const Ended& ended, int64_t most_ns) {
  const int64_t since = SteadyNs();
  while (!ended()) {
    const int64_t waited = SteadyNs() - since;
    if (waited > most_ns) return false;
    if (waited > kSpinNs) std::this_thread::sleep_for(kNap);
  }
  return true;
}

}  // namespace

const char* Name(SignalBy by) {
  switch (by) {
    case SignalBy::kEndKernel:
      return "the last block of the end kernel";
    case SignalBy::kSignalKernel:
      return "a signaling kernel";
    case SignalBy::kStreamWrite:
      return "a write of the stream";
  }
  return "";
}

absl::StatusOr<TaskKernels> TaskKernels::Make(std::shared_ptr<const GpuContext> gpu,
                                              const std::string& source) {
  auto module = KernelModule::Make(std::move(gpu), source);
  if (!module.ok()) return module.status();
  TaskKernels kernels;
  kernels.module = *std::move(module);
  for (const auto& [name, to] :
       {std::pair{"cellbatch_begin", &kernels.begin}, std::pair{"cellbatch_end", &kernels.end},
        std::pair{"cellbatch_signal", &kernels.signal}}) {
    const auto found = kernels.module.Find(name, 0);
    if (!found.ok()) return found.status();
    *to = *found;
  }
  return kernels;
}

LaunchGraph::~LaunchGraph() {
  if (exec_ != nullptr && gpu_->Use().ok()) gpu_->driver().graph_exec_destroy(exec_);
}

LaunchQueue::LaunchQueue(std::shared_ptr<const GpuContext> gpu, const TaskKernels& kernels,
                         const QueueOptions& options)
    : gpu_(std::move(gpu)),
      kernels_(kernels),
      options_(options),
      early_launches_(options.early_launches && gpu_->has_early_launches()) {}

absl::StatusOr<std::unique_ptr<LaunchQueue>> LaunchQueue::Make(
    std::shared_ptr<const GpuContext> gpu, const TaskKernels& kernels,
    const QueueOptions& options) {
  std::unique_ptr<LaunchQueue> queue(new LaunchQueue(std::move(gpu), kernels, options));
  if (absl::Status s = queue->Allocate(); !s.ok()) return s;
  if (absl::Status s = queue->WriteState(); !s.ok()) return s;
  return queue;
}

LaunchQueue::~LaunchQueue() {
  if (!gpu_->Use().ok()) return;
  if (stream_ != nullptr) gpu_->driver().stream_destroy(stream_);
  if (capture_ != nullptr) gpu_->driver().stream_destroy(capture_);
}

absl::Status LaunchQueue::Allocate() {
  if (absl::Status s = gpu_->Use(); !s.ok()) return s;
  for (Stream* const stream : {&stream_, &capture_}) {
    const Result made = gpu_->driver().stream_create(stream, kStreamNonBlocking);
    if (absl::Status s = gpu_->Called("cuStreamCreate", made); !s.ok()) return s;
  }
  const int64_t slots = options_.slots;
  const std::pair<PinnedBuffer*, size_t> pinned[] = {
      {&ring_, sizeof(TaskSlot)}, {&stamps_, sizeof(TaskStamps)}, {&signal_, sizeof(uint32_t)}};
  for (const auto& [buffer, bytes] : pinned) {
    auto made = PinnedBuffer::Make(gpu_, slots * static_cast<int64_t>(bytes));
    if (!made.ok()) return made.status();
    *buffer = *std::move(made);
  }
  *signal_.as<uint32_t>() = options_.first_signal;
  const std::pair<DeviceBuffer*, int64_t> own[] = {
      {&state_, static_cast<int64_t>(sizeof(QueueState))},
      {&lists_, options_.list_ints * static_cast<int64_t>(sizeof(int))}};
  for (const auto& [buffer, bytes] : own) {
    auto made = DeviceBuffer::Make(gpu_, bytes);
    if (!made.ok()) return made.status();
    *buffer = *std::move(made);
  }
  return absl::OkStatus();
}

absl::Status LaunchQueue::WriteState() {
  QueueState state = {};
  state.signal = options_.first_signal;
  state.ring_slots = static_cast<unsigned>(options_.slots);
  state.ring = ring_.as<TaskSlot>();
  state.stamps = stamps_.as<TaskStamps>();
  state.host_signal = signal_.as<unsigned>();
  state.lists = lists_.as<int>();
  state.list_ints = options_.list_ints;
  return Bring(state_.at(), &state, sizeof state);
}

absl::Status LaunchQueue::Synchronize(const char* function, Result result) {
  if (absl::Status s = gpu_->Called(function, result); !s.ok()) return s;
  return gpu_->Called("cuStreamSynchronize", gpu_->driver().stream_synchronize(stream_));
}

absl::Status LaunchQueue::Bring(DevicePtr to, const void* from, int64_t bytes) {
  if (absl::Status s = gpu_->Use(); !s.ok()) return s;
  return Synchronize("cuMemcpyHtoDAsync",
                     gpu_->driver().copy_to_device(to, from, static_cast<size_t>(bytes), stream_));
}

absl::Status LaunchQueue::Fetch(void* to, DevicePtr from, int64_t bytes) {
  if (absl::Status s = gpu_->Use(); !s.ok()) return s;
  return Synchronize("cuMemcpyDtoHAsync",
                     gpu_->driver().copy_to_host(to, from, static_cast<size_t>(bytes), stream_));
}

absl::Status LaunchQueue::Zero(DevicePtr at, int64_t bytes) {
  if (absl::Status s = gpu_->Use(); !s.ok()) return s;
  return Synchronize("cuMemsetD8Async",
                     gpu_->driver().fill(at, 0, static_cast<size_t>(bytes), stream_));
}

const cuda_abi::TaskNow* LaunchQueue::now() const { return state_.as<QueueState>()->now; }

// Launching -------------------------------------------------------------------------------------

absl::Status LaunchQueue::LaunchOne(Function function, const KernelGrid& grid, bool early,
                                    Stream stream, void** arguments) {
  const auto u = [](int i) { return static_cast<unsigned>(i); };
  LaunchAttribute serialization = {kProgrammaticSerialization, 1, {}};
  const LaunchConfig config = {.grid_x = u(grid.blocks_x),
                               .grid_y = u(grid.blocks_y),
                               .grid_z = 1,
                               .block_x = u(grid.threads),
                               .block_y = 1,
                               .block_z = 1,
                               .shared_bytes = u(grid.shared_bytes),
                               .stream = stream,
                               .attributes = &serialization,
                               .num_attributes = early && early_launches_ ? 1u : 0u};
  return gpu_->Called("cuLaunchKernelEx",
                      gpu_->driver().launch(&config, function, arguments, nullptr));
}

const ShapeLaunch& StepLaunch::ShapeFor(int nodes) const {
  const auto found = std::find_if(shapes.begin(), shapes.end(), [&](const ShapeLaunch& shape) {
    return shape.most_nodes >= nodes;
  });
  return found == shapes.end() ? shapes.back() : *found;
}

// Of a launch's task of that number.
absl::Status LaunchQueue::LaunchSteps(const CellLaunch& cell, int nodes, int task, Stream stream) {
  for (size_t s = 0; s < cell.steps.size(); ++s) {
    const StepLaunch& step = cell.steps[s];
    const ShapeLaunch& shape = step.ShapeFor(nodes);
    const int of_cluster = shape.nodes_a_block * shape.cluster;
    const int blocks_y = (nodes + of_cluster - 1) / of_cluster * shape.cluster;
    cuda_abi::StepArgs args = step.args;
    args.now += task;
    // Of a kernel right behind begin they may come while it already runs.
    args.lists_are_there = s > 0 || task > 0 ? 1 : 0;
    if (s == 0 && task > 0) args.begins_ns = state_.as<QueueState>()->steps_ns + task;
    void* of_step[] = {&args};
    absl::Status launched =
        LaunchOne(shape.function, {shape.blocks_x, blocks_y, shape.threads, shape.shared_bytes},
                  true, stream, of_step);
    if (!launched.ok()) return launched;
  }
  return absl::OkStatus();
}

absl::Status LaunchQueue::LaunchAll(const CellLaunch& cell, int nodes, int tasks, Stream stream) {
  const int blocks = std::clamp(nodes / kNodesABlock, kFewestBlocks, kMostBlocks);
  auto* state = state_.as<QueueState>();
  const CopiedColumn* tables = cell.tables;
  const CopiedColumn* outputs = cell.outputs;
  int num_outputs = cell.num_outputs;
  int signals = options_.signal_by == SignalBy::kEndKernel ? 1 : 0;
  void* of_begin[] = {&state, &tables};
  absl::Status s = LaunchOne(kernels_.begin, {blocks, tasks, kTaskThreads, kBeginSharedBytes},
                             false, stream, of_begin);
  for (int task = 0; s.ok() && task < tasks; ++task) s = LaunchSteps(cell, nodes, task, stream);
  if (!s.ok()) return s;
  void* of_end[] = {&state, &outputs, &num_outputs, &signals};
  s = LaunchOne(kernels_.end, {blocks, tasks, kTaskThreads, 0}, true, stream, of_end);
  if (!s.ok() || options_.signal_by != SignalBy::kSignalKernel) return s;
  void* of_signal[] = {&state};
  return LaunchOne(kernels_.signal, {1, 1, 1, 0}, false, stream, of_signal);
}

absl::StatusOr<LaunchGraph> LaunchQueue::Capture(const CellLaunch& cell, int nodes, int tasks) {
  if (absl::Status s = gpu_->Use(); !s.ok()) return s;
  const DriverApi& driver = gpu_->driver();
  const Result began = driver.capture_begin(capture_, kCaptureThreadLocal);
  if (absl::Status s = gpu_->Called("cuStreamBeginCapture", began); !s.ok()) return s;
  const absl::Status launched = LaunchAll(cell, nodes, tasks, capture_);
  Graph graph = nullptr;
  const Result ended = driver.capture_end(capture_, &graph);
  if (!launched.ok()) return launched;
  if (absl::Status s = gpu_->Called("cuStreamEndCapture", ended); !s.ok()) return s;
  GraphExec exec = nullptr;
  const Result made = driver.graph_instantiate(&exec, graph, 0);
  driver.graph_destroy(graph);
  if (absl::Status s = gpu_->Called("cuGraphInstantiate", made); !s.ok()) return s;
  return LaunchGraph(gpu_, exec, tasks);
}

// What follows every launch.
absl::Status LaunchQueue::Launched(int tasks) {
  launched_ += static_cast<uint64_t>(tasks);
  if (options_.signal_by != SignalBy::kStreamWrite) return absl::OkStatus();
  const auto shown = static_cast<uint32_t>(options_.first_signal + launched_);
  const auto at = reinterpret_cast<DevicePtr>(signal_.data());
  return gpu_->Called("cuStreamWriteValue32", gpu_->driver().stream_write(stream_, at, shown, 0));
}

absl::Status LaunchQueue::Replay(const LaunchGraph& graph) {
  if (absl::Status s = gpu_->Use(); !s.ok()) return s;
  const Result launched = gpu_->driver().graph_launch(graph.exec(), stream_);
  if (absl::Status s = gpu_->Called("cuGraphLaunch", launched); !s.ok()) return s;
  return Launched(graph.tasks());
}

absl::Status LaunchQueue::Launch(const CellLaunch& cell, int nodes) {
  if (absl::Status s = gpu_->Use(); !s.ok()) return s;
  if (absl::Status s = LaunchAll(cell, nodes, 1, stream_); !s.ok()) return s;
  return Launched(1);
}

// Signals ---------------------------------------------------------------------------------------

uint64_t LaunchQueue::done() const {
  const std::atomic_ref<uint32_t> signal(*signal_.as<uint32_t>());
  const uint32_t shown = signal.load(std::memory_order_acquire) - options_.first_signal;
  done_ = WidenSignal(done_, shown, 32);
  return done_;
}

absl::Status LaunchQueue::Health() const {
  if (absl::Status s = gpu_->Use(); !s.ok()) return s;
  const Result asked = gpu_->driver().stream_query(stream_);
  return asked == kNotReady ? absl::OkStatus() : gpu_->Called("cuStreamQuery", asked);
}

absl::Status LaunchQueue::WaitForAll() {
  absl::Status health;
  const auto ended = [&] {
    if (done() == launched_) return true;
    health = Health();
    return !health.ok();
  };
  if (!WaitUntil(ended, kMostLoadWaitNs)) {
    return absl::DeadlineExceededError(
        fmt::format("{}: a signal did not come within {} s: {} of {} launches are done",
                    gpu_->name(), kMostLoadWaitNs / 1'000'000'000, done(), launched_));
  }
  if (health.ok()) Release(launched_);
  return health;
}

bool LaunchQueue::Drain() {
  const auto ended = [&] {
    return !gpu_->Use().ok() || gpu_->driver().stream_query(stream_) != kNotReady;
  };
  return WaitUntil(ended, kMostAbandonNs);
}

// From the launch to the signal, of a slot without nodes.
absl::StatusOr<int64_t> LaunchQueue::MeasureSignal(SignalBy by) {
  options_.signal_by = by;
  std::vector<int64_t> took;
  for (int i = 0; i < kMeasuredSignals; ++i) {
    NextSlot() = {};
    const int64_t since = SteadyNs();
    if (absl::Status s = Launch({}, 0); !s.ok()) return s;
    if (absl::Status s = WaitForAll(); !s.ok()) return s;
    took.push_back(SteadyNs() - since);
  }
  const auto middle = took.begin() + kMeasuredSignals / 2;
  std::nth_element(took.begin(), middle, took.end());
  return *middle;
}

absl::Status LaunchQueue::ChooseSignal() {
  SignalBy best = options_.signal_by;
  int64_t least = INT64_MAX;
  for (const SignalBy by :
       {SignalBy::kEndKernel, SignalBy::kSignalKernel, SignalBy::kStreamWrite}) {
    const auto took = MeasureSignal(by);
    if (!took.ok()) return took.status();
    signal_ns_[static_cast<size_t>(by)] = *took;
    if (*took >= least) continue;
    best = by;
    least = *took;
  }
  options_.signal_by = best;
  return absl::OkStatus();
}

}  // namespace cellbatch::cuda
