#include "tests/gpu/gpu_steps.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "cells/device/cuda/gpu_context.h"
#include "cells/device/signal.h"
#include "cells/kernels/cuda/cell_source.h"
#include "tests/bench/in_process.h"
#include "tests/bench/thread_time.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

constexpr int kInARow = 16;  // tasks; a queue holds 64 slots
constexpr int kWarmTasks = 4;

double NowUs() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Tasks of one size over scattered rows, in the device's task memory. State goes from row to row: what one task writes the
// next one reads.
class StepTasks {
 public:
  StepTasks(Device& device, const Model& model, const LoadedModel& loaded, int32_t batch,
            int32_t rows)
      : device_(device), sequence_(device.Signal()) {
    std::vector<Row> order(static_cast<size_t>(rows - 1));
    std::iota(order.begin(), order.end(), 1);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(static_cast<uint64_t>(batch)));
    const Row* const before = Rows(order, 0, batch);
    const Row* const after = Rows(order, batch, batch);
    const Row* const given = Rows(order, 2 * batch, batch);
    const CellType& type = model.types[0];
    for (int i = 0; i < kInARow; ++i) {
      BatchedTask task;
      task.model = &loaded;
      task.cell = type.id;
      task.num_nodes = batch;
      task.output_rows = i % 2 == 0 ? after : before;
      int states = 0;  // of a node's inputs, each a row of its own
      for (size_t in = 0; in < type.in.size(); ++in) {
        const bool state = type.in[in] == type.out;
        task.inputs[in].rows = state ? (i % 2 == 0 ? before : after) + states++ : given;
      }
      tasks_.push_back(Place(&task, 1));
    }
  }

  // The first `count` of them, to the end.
  void Run(int count, absl::Span<const CopyIn> copies = {}) {
    tasks_[0]->copies_in = copies.data();
    tasks_[0]->num_copies_in = static_cast<int32_t>(copies.size());
    for (int i = 0; i < count; ++i) tasks_[static_cast<size_t>(i)]->sequence = ++sequence_;
    launch_us_ = 0;
    for (int taken = 0; taken < count;) {
      const double since = ThreadMilliseconds();
      taken += device_.Enqueue(absl::MakeSpan(tasks_).subspan(static_cast<size_t>(taken),
                                                              static_cast<size_t>(count - taken)));
      device_.Advance();
      launch_us_ += (ThreadMilliseconds() - since) * 1e3;
      Require(device_.Health(), "the device");
    }
    while (!SignalPassed(device_.Signal(), sequence_)) {
      device_.Advance();
      Require(device_.Health(), "the device");
    }
  }
  double device_us(int task) const {
    const BatchedTask& t = *tasks_[static_cast<size_t>(task)];
    return static_cast<double>(t.end_ns - t.start_ns) / 1e3;
  }
  // CPU time of all Enqueue of the last Run.
  double launch_us() const { return launch_us_; }

  template <typename T>
  T* Place(const T* values, int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    const absl::Span<std::byte> memory = device_.task_memory();
    Require(used_ + bytes <= memory.size() ? absl::OkStatus()
                                           : absl::ResourceExhaustedError("task memory"),
            "tasks");
    T* const at = reinterpret_cast<T*>(memory.data() + used_);
    std::uninitialized_copy_n(values, count, at);
    used_ = (used_ + bytes + 63) / 64 * 64;
    return at;
  }

 private:
  // A few more behind them, the first ones again: lists that begin later are as long.
  const Row* Rows(const std::vector<Row>& order, int64_t first, int32_t batch) {
    std::vector<Row> rows(order.begin() + first, order.begin() + first + batch);
    for (size_t i = 0; i < kMaxInputs; ++i) rows.push_back(rows[i]);
    return Place(rows.data(), std::ssize(rows));
  }

  Device& device_;
  uint64_t sequence_;
  double launch_us_ = 0;
  size_t used_ = 0;
  std::vector<BatchedTask*> tasks_;
};

// Any word of the vocabulary that the first weights have a row for.
std::vector<float> RandomWords(int64_t n, const CellType& type) {
  std::mt19937_64 random(7);
  std::uniform_int_distribution<int32_t> word(0, type.weights[0].shape.rows - 1);
  std::vector<float> words(static_cast<size_t>(n));
  for (float& w : words) w = std::bit_cast<float>(word(random));
  return words;
}

// Random numbers, or words, in every table that requests fill.
class GivenRows {
 public:
  GivenRows(Memory& memory, const Model& model, int32_t rows) : blocks_(*memory.host_blocks()) {
    const CellType& type = model.types[0];
    for (const TableId table : type.in) {
      if (table == type.out || model.table(table).columns.empty()) continue;
      const int64_t bytes = (rows - 1) * model.table(table).row_bytes();
      std::byte* const block = blocks_.Allocate(bytes);
      Require(block != nullptr ? absl::OkStatus() : absl::ResourceExhaustedError("host blocks"),
              "rows");
      const bool words = model.table(table).columns[0].type == ElementType::kInt32;
      const std::vector<float> values =
          words ? RandomWords(bytes / 4, type) : testing::RandomFloats(bytes / 4, 7);
      std::memcpy(block, values.data(), static_cast<size_t>(bytes));
      taken_.push_back({block, bytes});
      copies.push_back({block, table, 1, rows - 1});
    }
  }
  ~GivenRows() {
    for (const auto& [block, bytes] : taken_) blocks_.Free(block, bytes);
  }
  GivenRows(const GivenRows&) = delete;

  std::vector<CopyIn> copies;

 private:
  HostBlocks& blocks_;
  std::vector<std::pair<std::byte*, int64_t>> taken_;
};

StepTime TimeOf(StepTasks& tasks, int32_t batch, int repeats) {
  std::vector<double> alone, device, row, launch;
  for (int i = 0; i < repeats; ++i) {
    double since = NowUs();
    tasks.Run(1);
    alone.push_back(NowUs() - since);
    device.push_back(tasks.device_us(0));
    since = NowUs();
    tasks.Run(kInARow);
    row.push_back((NowUs() - since) / kInARow);
    launch.push_back(tasks.launch_us() / kInARow);
  }
  return {batch, QuartilesOf(alone), QuartilesOf(device), QuartilesOf(row), QuartilesOf(launch)};
}

}  // namespace

Quartiles SignalLatency(std::shared_ptr<const cuda::CudaApi> api, int ordinal, cuda::SignalBy by,
                        int repeats) {
  const auto gpu = Require(cuda::GpuContext::Open(std::move(api), ordinal), "the GPU");
  const auto kernels = Require(cuda::TaskKernels::Make(gpu, TaskKernelSource()), "task kernels");
  cuda::QueueOptions options;
  options.signal_by = by;
  const auto queue = Require(cuda::LaunchQueue::Make(gpu, kernels, options), "a queue");
  const cuda::LaunchGraph graph = Require(queue->Capture({}, 0, 1), "recording");
  std::vector<double> took;
  for (int i = 0; i < repeats + kWarmTasks; ++i) {
    queue->NextSlot() = {};
    const double since = NowUs();
    Require(queue->Replay(graph), "a launch");
    while (queue->done() < queue->launched()) {
      if (NowUs() - since > 1e6) Require(queue->Health(), "the GPU");
    }
    if (i >= kWarmTasks) took.push_back(NowUs() - since);
    Require(queue->WaitForAll(), "the GPU");
  }
  return QuartilesOf(took);
}

absl::StatusOr<std::vector<StepTime>> StepTimes(DeviceSet& set, const Model& model,
                                                const std::vector<int32_t>& batches, int repeats) {
  Device& device = *set.devices[0];
  Memory& memory = *set.memories[0];
  const int32_t rows = 3 * *std::max_element(batches.begin(), batches.end()) + 1;
  const RowBudget budget{std::vector<int32_t>(model.tables.size(), rows)};
  auto tried = memory.Load(model, budget);
  if (absl::IsUnimplemented(tried.status())) return tried.status();
  const auto loaded = Require(std::move(tried), "loading " + model.name);
  const GivenRows given(memory, model, rows);
  std::vector<StepTime> times;
  for (const int32_t batch : batches) {
    StepTasks tasks(device, model, *loaded, batch, rows);
    const CopyIn* const copies = tasks.Place(given.copies.data(), std::ssize(given.copies));
    tasks.Run(1, {copies, given.copies.size()});
    tasks.Run(kWarmTasks);
    times.push_back(TimeOf(tasks, batch, repeats));
  }
  return times;
}

}  // namespace cellbatch
