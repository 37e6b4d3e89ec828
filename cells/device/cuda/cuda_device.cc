#include "cells/device/cuda/cuda_device.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "cells/check.h"
#include "cells/device/check_task.h"
#include "cells/device/cuda/cuda_model.h"
#include "cells/device/signal.h"

namespace cellbatch::cuda {
namespace {

constexpr int64_t kHealthNs = 1'000'000;

int64_t SteadyNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int SlotsFor(const BatchedTask& task) {
  return std::max(1, (task.num_nodes + kMostLaunchNodes - 1) / kMostLaunchNodes);
}

// The nodes from `first` on, as many as a launch takes. Rows come in with the first of them, answers leave with the last.
void Fill(const BatchedTask& task, int num_inputs, int first, cuda_abi::TaskSlot& slot) {
  slot = {};
  slot.num_nodes = std::min(task.num_nodes - first, kMostLaunchNodes);
  slot.num_inputs = num_inputs;
  const auto rows_at = [](const Row* rows, int at) {
    return reinterpret_cast<const int*>(rows + at);
  };
  for (int i = 0; i < num_inputs; ++i) {
    const InputRows& input = task.inputs[i];
    if (input.offsets == nullptr) {
      slot.inputs[i] = {rows_at(input.rows, first), nullptr};
      slot.input_rows[i] = slot.num_nodes;
    } else {
      slot.inputs[i] = {rows_at(input.rows, 0), input.offsets + first};
      slot.input_rows[i] = slot.inputs[i].offsets[slot.num_nodes];
    }
  }
  slot.output_rows = rows_at(task.output_rows, first);
  if (first == 0) {
    slot.num_copies_in = task.num_copies_in;
    slot.copies_in = reinterpret_cast<const cuda_abi::CopyInItem*>(task.copies_in);
  }
  if (first + slot.num_nodes == task.num_nodes) {
    slot.num_copies_out = task.num_copies_out;
    slot.copies_out = reinterpret_cast<const cuda_abi::CopyOutItem*>(task.copies_out);
  }
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
  info_.kind = memory->gpu()->gpu_name() + ", " + memory->gpu()->architecture();
  if (memory->fp32() == Fp32By::kTensorCores) info_.kind += ", fp32 by 3xtf32";
  if (number > 0) info_.name += "#" + std::to_string(number);
}

CudaDevice::~CudaDevice() {
  if (!abandoned_) Abandon();
}

absl::Status CudaDevice::Launch(const BatchedTask& task) {
  const auto& model = static_cast<const CudaModel&>(*task.model);
  CheckTask(model, task);
  const auto inputs = static_cast<int>(model.model().type(task.cell).in.size());
  int first = 0;
  do {
    cuda_abi::TaskSlot& slot = queue_.NextSlot();
    Fill(task, inputs, first, slot);
    absl::Status s = queue_.Replay(model.graph(number_, task.cell, slot.num_nodes));
    if (!s.ok()) return s;
    first += kMostLaunchNodes;
  } while (first < task.num_nodes);
  return absl::OkStatus();
}

int CudaDevice::Enqueue(absl::Span<BatchedTask* const> tasks) {
  int taken = 0;
  if (!health_.ok()) return taken;
  for (BatchedTask* const task : tasks) {
    const int slots = SlotsFor(*task);
    Check(slots <= queue_.options().slots, "a task fits into the ring");
    if (slots > queue_.room()) break;
    if (tail_ == head_) asked_ns_ = SteadyNs();
    InProgress(tail_++) = {task, queue_.launched() + 1, queue_.launched() + slots};
    ++taken;
    health_ = Launch(*task);
    if (!health_.ok()) break;
  }
  return taken;
}

bool CudaDevice::Advance() {
  if (tail_ == head_ || !health_.ok()) return false;
  const int64_t now = SteadyNs();
  if (now - asked_ns_ < kHealthNs) return false;
  asked_ns_ = now;
  health_ = queue_.Health();
  return false;
}

// What is done since the last call: stamps are taken over before anybody hears of it.
uint64_t CudaDevice::Signal() const {
  const uint64_t done = queue_.done();
  while (head_ != tail_ && SignalPassed(done, InProgress(head_).last_slot)) {
    const Taken& taken = InProgress(head_++);
    taken.task->start_ns = queue_.stamps(taken.first_slot).start_ns;
    taken.task->end_ns = queue_.stamps(taken.last_slot).end_ns;
    queue_.Release(taken.last_slot);
    ++signal_;
  }
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
