#include "cells/device/cuda/cuda_device.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "cells/check.h"
#include "cells/device/check_task.h"
#include "cells/device/cuda/cuda_model.h"
#include "cells/device/cuda/task_slots.h"
#include "cells/device/signal.h"

namespace cellbatch::cuda {
namespace {

constexpr int64_t kHealthNs = 1'000'000;

int64_t SteadyNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

CudaDevice::CudaDevice(CudaMemory* memory, int number, PinnedBuffer task_memory,
                       uint64_t first_sequence)
    : info_{.name = memory->gpu()->name(), .memory = memory, .cores = 0},
      number_(number),
      queue_(memory->queue(number)),
      task_memory_(std::move(task_memory)),
      taken_(static_cast<size_t>(queue_.options().slots)),
      signal_(first_sequence - 1) {
  info_.tasks_in_flight = 2 * queue_.options().tasks_a_launch;  // two launches
  info_.kind = memory->gpu()->gpu_name() + ", " + memory->gpu()->architecture();
  if (memory->fp32() == Fp32By::kTensorCores) info_.kind += ", fp32 by 3xtf32";
  if (number > 0) info_.name += "#" + std::to_string(number);
}

CudaDevice::~CudaDevice() {
  if (!abandoned_) Abandon();
}

// Of a task with more nodes than a launch.
absl::Status CudaDevice::LaunchLarge() {
  Taken& taken = InProgress(launched_++);
  const BatchedTask& task = *taken.task;
  const auto& model = static_cast<const CudaModel&>(*task.model);
  taken.first_slot = queue_.launched() + 1;
  taken.last_slot = queue_.launched() + static_cast<uint64_t>(SlotsFor(task));
  for (int first = 0; first < task.num_nodes; first += kMostLaunchNodes) {
    cuda_abi::TaskSlot& slot = queue_.NextSlot();
    FillSlot(task, first, slot);
    launches_.fetch_add(1, std::memory_order_relaxed);
    absl::Status s = queue_.Replay(model.graph(number_, task.cell, slot.num_nodes, 1));
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

// So many that may go together, from the first that is kept.
absl::Status CudaDevice::Launch(int tasks) {
  const BatchedTask& front = *InProgress(launched_).task;
  const auto& model = static_cast<const CudaModel&>(*front.model);
  int nodes = 0;
  for (int k = 0; k < tasks; ++k) {
    Taken& taken = InProgress(launched_++);
    taken.first_slot = taken.last_slot = queue_.launched() + 1 + static_cast<uint64_t>(k);
    FillSlot(*taken.task, 0, queue_.NextSlot(k));
    nodes = std::max(nodes, taken.task->num_nodes);
  }
  launches_.fetch_add(1, std::memory_order_relaxed);
  return queue_.Replay(model.graph(number_, front.cell, nodes, tasks));
}

// How many of those that are kept are the next launch.
int CudaDevice::Together() const {
  const BatchedTask& front = *InProgress(launched_).task;
  const auto kept = static_cast<int>(tail_ - launched_);
  const int most = std::min({queue_.options().tasks_a_launch, kept, queue_.room()});
  const auto is_like_it = [&](const BatchedTask& task) {
    return task.model == front.model && task.cell == front.cell && SlotsFor(task) == 1 &&
           !task.measured;
  };
  if (most < 2 || front.measured || !is_like_it(*InProgress(launched_ + 1).task)) return 1;
  GroupRows& rows = static_cast<const CudaModel&>(*front.model).group_rows(number_);
  rows.Begin(front);
  int tasks = 1;
  while (tasks < most) {
    const BatchedTask& next = *InProgress(launched_ + static_cast<uint64_t>(tasks)).task;
    if (!is_like_it(next) || !rows.Take(next)) break;
    ++tasks;
  }
  return LaunchTasks(tasks);
}

// Where no tasks go together, nothing is gained by keeping them.
bool CudaDevice::MayLaunch() const {
  if (queue_.room() < SlotsFor(*InProgress(launched_).task)) return false;
  return queue_.options().tasks_a_launch == 1 || SignalPassed(queue_.done(), end_before_);
}

void CudaDevice::LaunchKept() {
  while (health_.ok() && launched_ != tail_ && MayLaunch()) {
    end_before_ = last_end_;
    health_ = SlotsFor(*InProgress(launched_).task) > 1 ? LaunchLarge() : Launch(Together());
    last_end_ = queue_.launched();
  }
}

int CudaDevice::Enqueue(absl::Span<BatchedTask* const> tasks) {
  int taken = 0;
  if (!health_.ok()) return taken;
  for (BatchedTask* const task : tasks) {
    if (tail_ - head_ == taken_.size()) break;
    Check(SlotsFor(*task) <= queue_.options().slots, "a task fits into the ring");
    CheckTask(*task->model, *task);
    if (tail_ == head_) asked_ns_ = SteadyNs();
    InProgress(tail_++) = {task, 0, 0};
    ++taken;
  }
  return taken;
}

bool CudaDevice::Advance() {
  if (tail_ == head_ || !health_.ok()) return false;
  const uint64_t before = launched_;
  if (launched_ != tail_) {
    TakeOverStamps();  // slots are free again
    LaunchKept();
  }
  const int64_t now = SteadyNs();
  if (health_.ok() && now - asked_ns_ >= kHealthNs) {
    asked_ns_ = now;
    health_ = queue_.Health();
  }
  return launched_ != before;
}

// Of what is done since the last call, before anybody hears of it.
void CudaDevice::TakeOverStamps() const {
  const uint64_t done = queue_.done();
  while (head_ != launched_ && SignalPassed(done, InProgress(head_).last_slot)) {
    const Taken& taken = InProgress(head_++);
    taken.task->start_ns = queue_.stamps(taken.first_slot).start_ns;
    taken.task->end_ns = queue_.stamps(taken.last_slot).end_ns;
    queue_.Release(taken.last_slot);
    ++signal_;
  }
}

uint64_t CudaDevice::Signal() const {
  TakeOverStamps();
  return signal_;
}

void CudaDevice::Abandon() {
  abandoned_ = true;
  Check(queue_.Drain(), "a GPU ends what it was given within ten seconds");
}

absl::StatusOr<DeviceSet> CudaDevices(std::shared_ptr<const CudaApi> api,
                                      absl::Span<const int> ordinals, const CudaOptions& options) {
  if (ordinals.empty()) return absl::InvalidArgumentError("no CUDA devices");
  std::map<int, int> queues_of_gpu;
  for (const int ordinal : ordinals) ++queues_of_gpu[ordinal];
  DeviceSet set;
  std::shared_ptr<PinnedBlocks> blocks;
  std::map<int, std::pair<CudaMemory*, int>> memory_of_gpu;  // and the devices it has so far
  for (const auto& [ordinal, queues] : queues_of_gpu) {
    auto gpu = GpuContext::Open(api, ordinal);
    if (!gpu.ok()) return gpu.status();
    if (blocks == nullptr) {
      auto made = PinnedBlocks::Make(*gpu, options.host_block_bytes);
      if (!made.ok()) return made.status();
      blocks = *std::move(made);
    }
    CudaMemoryOptions of_memory = options.memory;
    of_memory.num_queues = queues;
    auto memory = CudaMemory::Make(*std::move(gpu), blocks, of_memory);
    if (!memory.ok()) return memory.status();
    memory_of_gpu[ordinal] = {memory->get(), 0};
    set.memories.push_back(*std::move(memory));
  }
  for (const int ordinal : ordinals) {
    auto& [memory, number] = memory_of_gpu[ordinal];
    auto task_memory = PinnedBuffer::Make(memory->gpu(), options.task_memory_bytes);
    if (!task_memory.ok()) return task_memory.status();
    set.devices.push_back(std::make_unique<CudaDevice>(memory, number++, *std::move(task_memory),
                                                       options.first_sequence));
  }
  return set;
}

}  // namespace cellbatch::cuda
