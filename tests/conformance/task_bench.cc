#include "tests/conformance/task_bench.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "cells/check.h"

namespace cellbatch::conformance {

TaskBench::TaskBench(const Model& model, const DeviceSetup& setup, int32_t rows)
    : setup_(setup), model_(model), queues_(setup.devices.size()) {
  RowBudget budget;
  budget.rows.assign(model.tables.size(), rows);
  absl::StatusOr<std::unique_ptr<LoadedModel>> loaded = setup_.memory->Load(model_, budget);
  Check(loaded.ok(), loaded.status().ToString());
  loaded_ = *std::move(loaded);
  for (size_t d = 0; d < queues_.size(); ++d) {
    queues_[d].first_sequence = setup_.devices[d]->Signal() + 1;  // others may have used it before
  }
}

// Room for `count` values in the device's task memory, the first of them filled. Starts over at the bottom when it is
// full: tests are small, and run what they made before they make more.
template <typename T>
T* TaskBench::Place(int device, const std::vector<T>& values, size_t count) {
  Queue& queue = queues_[static_cast<size_t>(device)];
  const absl::Span<std::byte> memory = this->device(device).task_memory();
  const size_t bytes = (count * sizeof(T) + 63) / 64 * 64;
  Check(queue.used_bytes + bytes <= memory.size(),
        "a test makes more tasks than task memory holds");
  T* const at = reinterpret_cast<T*>(memory.data() + queue.used_bytes);
  std::uninitialized_copy(values.begin(), values.end(), at);
  queue.used_bytes += bytes;
  return at;
}

BatchedTask* TaskBench::Task(int device, const TaskSpec& spec) {
  Queue& queue = queues_[static_cast<size_t>(device)];
  BatchedTask* const task = Place<BatchedTask>(device, {BatchedTask()}, 1);
  task->sequence = queue.first_sequence + queue.tasks.size();
  task->model = loaded_.get();
  task->cell = spec.cell;
  task->num_nodes = static_cast<int32_t>(spec.out.size());
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    task->inputs[i].rows = Place(device, spec.inputs[i], spec.inputs[i].size());
  }
  for (size_t i = 0; i < spec.sums.size(); ++i) {
    if (spec.sums[i].empty()) continue;
    std::vector<Row> rows;
    std::vector<int32_t> offsets = {0};
    for (const std::vector<Row>& node : spec.sums[i]) {
      rows.insert(rows.end(), node.begin(), node.end());
      offsets.push_back(static_cast<int32_t>(rows.size()));
    }
    task->inputs[i] = {Place(device, rows, rows.size()), Place(device, offsets, offsets.size())};
  }
  task->output_rows = Place(device, spec.out, spec.out.size());
  task->copies_in = Place<cellbatch::CopyIn>(device, {}, kMaxCopies);
  task->copies_out = Place<cellbatch::CopyOut>(device, {}, kMaxCopies);
  queue.tasks.push_back(task);
  return task;
}

TaskBench::~TaskBench() {
  for (const Block& b : blocks_) setup_.memory->host_blocks()->Free(b.memory, b.bytes);
}

std::byte* TaskBench::Stage(const void* values, int64_t bytes) {
  std::byte* const block = setup_.memory->host_blocks()->Allocate(bytes);
  Check(block != nullptr, "host blocks for what a test copies");
  std::memcpy(block, values, static_cast<size_t>(bytes));
  blocks_.push_back({block, bytes});
  return block;
}

void TaskBench::CopyIn(BatchedTask* task, TableId table, Row first, int32_t rows,
                       const void* source, ColumnId column) {
  if (setup_.memory->host_blocks() != nullptr && rows > 0) {
    const Column& of = model_.table(table).columns[static_cast<size_t>(column.value())];
    source = Stage(source, rows * of.bytes());
  }
  Check(task->num_copies_in < kMaxCopies, "room for one more copy");
  const_cast<cellbatch::CopyIn*>(task->copies_in)[task->num_copies_in++] = {
      static_cast<const std::byte*>(source), table, first, rows, column};
}

void TaskBench::CopyOut(BatchedTask* task, ColumnId column, Row row, void* dest) {
  if (setup_.memory->host_blocks() != nullptr && dest != nullptr) {
    const TableSpec& table = model_.table(model_.type(task->cell).out);
    const auto width = table.columns[static_cast<size_t>(column.value())].width;
    const int64_t bytes = int64_t{width} * 4;
    std::byte* const block = Stage(dest, bytes);
    for (Queue& queue : queues_) {
      if (queue.tasks.empty() || queue.tasks.back() != task) continue;
      queue.staged.push_back({task, block, dest, static_cast<size_t>(bytes)});
    }
    dest = block;
  }
  Check(task->num_copies_out < kMaxCopies, "room for one more copy");
  const_cast<cellbatch::CopyOut*>(task->copies_out)[task->num_copies_out++] = {
      static_cast<std::byte*>(dest), column, row};
}

int TaskBench::Enqueue(int device) {
  Queue& queue = queues_[static_cast<size_t>(device)];
  const int taken = this->device(device).Enqueue(absl::MakeSpan(queue.tasks).subspan(queue.taken));
  queue.taken += static_cast<size_t>(taken);
  return taken;
}

bool TaskBench::Advance(int device) {
  if (this->device(device).Advance()) return true;
  constexpr auto kNap = std::chrono::microseconds(20);
  if (!this->device(device).info().computes_in_advance) std::this_thread::sleep_for(kNap);
  return false;
}

void TaskBench::Collect(int device) {
  Queue& queue = queues_[static_cast<size_t>(device)];
  std::erase_if(queue.staged, [&](const StagedOut& out) {
    const bool done = IsDone(device, out.task);
    if (done) std::memcpy(out.dest, out.from, out.bytes);
    return done;
  });
}

std::vector<std::byte> TaskBench::CopiedOut() const {
  std::vector<std::byte> bytes;
  for (const Queue& queue : queues_) {
    for (const StagedOut& out : queue.staged) {
      bytes.insert(bytes.end(), out.from, out.from + out.bytes);
    }
  }
  return bytes;
}

bool TaskBench::Run(int device) {
  const Queue& queue = queues_[static_cast<size_t>(device)];
  if (queue.tasks.empty()) return true;
  for (int step = 0; step < 1'000'000; ++step) {
    if (IsDone(device, queue.tasks.back())) {
      Collect(device);
      return true;
    }
    const bool took = queue.taken < queue.tasks.size() && Enqueue(device) > 0;
    const bool worked = Advance(device);
    if (!took && !worked && !this->device(device).Health().ok()) return false;
  }
  return false;
}

}  // namespace cellbatch::conformance
