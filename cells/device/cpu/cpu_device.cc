#include "cells/device/cpu/cpu_device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "cells/device/check_task.h"
#include "cells/device/cpu/cpu_features.h"
#include "cells/device/cpu/cpu_topology.h"
#include "cells/device/cpu/process_limits.h"
#include "cells/device/cpu/split_costs.h"
#include "cells/kernels/cpu/tuning.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

int64_t SteadyNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

const kernels::CpuKernels& KernelsOf(const CpuOptions& options) {
  return options.kernels != nullptr ? *options.kernels : kernels::BestKernels(DetectCpuFeatures());
}

std::string Details(const CpuOptions& options, const SplitCosts& costs) {
  return fmt::format("{}: {:.0f} GF/s a core; weights are read {}; {}", KernelsOf(options).name,
                     2 * costs.per_ns, kernels::Describe(options.tuning), Describe(costs));
}

void WriteRows(const CpuLoadedModel& model, const CopyIn& copy) {
  const ColumnArray& column = model.column(copy.table, ColumnId(0));
  const auto bytes = static_cast<size_t>(column.width) * 4;
  for (int32_t i = 0; i < copy.rows; ++i) {
    std::memcpy(column.At(copy.first + i), copy.source + static_cast<size_t>(i) * bytes, bytes);
  }
}

void ReadRow(const CpuLoadedModel& model, TableId table, const CopyOut& copy) {
  if (copy.dest == nullptr) return;
  const ColumnArray& column = model.column(table, copy.column);
  std::memcpy(copy.dest, column.At(copy.row), static_cast<size_t>(column.width) * 4);
}

}  // namespace

CpuDevice::CpuDevice(CpuMemory* memory, int number, MappedMemory task_memory, std::vector<int> cpus,
                     const CpuOptions& options)
    : info_{"cpu:" + CpuListText(cpus), memory, static_cast<int>(cpus.size()), true},
      number_(number),
      task_memory_(std::move(task_memory)),
      pin_to_(options.pin_threads ? cpus[0] : -1),
      team_(static_cast<int>(cpus.size()), options.pin_threads ? cpus : std::vector<int>(),
            options.spin),
      costs_{options.tuning.multiply_adds_per_ns},
      queue_(static_cast<size_t>(options.queue_capacity)),
      signal_(options.first_sequence - 1) {
  product_scratch_.reserve(cpus.size());
  for (size_t i = 0; i < cpus.size(); ++i) product_scratch_.emplace_back(options.tuning);
  if (options.measure_split) {
    std::thread([this] {
      if (pin_to_ >= 0) CoreTeam::PinThisThread(pin_to_);
      costs_ = MeasureSplitCosts(team_, costs_.per_ns);
    }).join();
  }
  info_.details = Details(options, costs_);
}

int CpuDevice::Enqueue(absl::Span<BatchedTask* const> tasks) {
  const uint64_t room = queue_.size() - (tail_ - head_);
  const auto taken = static_cast<size_t>(std::min<uint64_t>(room, tasks.size()));
  for (size_t i = 0; i < taken; ++i) queue_[tail_++ % queue_.size()] = tasks[i];
  return static_cast<int>(taken);
}

void CpuDevice::Compute(const BatchedTask& task) {
  const auto& model = static_cast<const CpuLoadedModel&>(*task.model);
  CheckTask(model, task);
  for (int32_t i = 0; i < task.num_copies_in; ++i) WriteRows(model, task.copies_in[i]);
  const NodeLists nodes = {task.num_nodes, task.inputs, task.output_rows, task.measured};
  RunCell(model.cell(task.cell), model.columns(task.cell), nodes, model.scratch(number_),
          {&team_, &product_scratch_, costs_});
  const TableId out = model.cell(task.cell).type().out;
  for (int32_t i = 0; i < task.num_copies_out; ++i) ReadRow(model, out, task.copies_out[i]);
}

bool CpuDevice::Advance() {
  if (head_ == tail_) return false;
  if (pin_to_ >= 0 && !pinned_) {
    CoreTeam::PinThisThread(pin_to_);  // refused: it runs where it may
    pinned_ = true;
  }
  BatchedTask& task = *queue_[head_ % queue_.size()];
  const uint64_t sequence = task.sequence;
  task.start_ns = SteadyNs();
  Compute(task);
  task.end_ns = SteadyNs();
  ++head_;
  signal_.store(sequence, std::memory_order_release);
  return true;
}

void MeasureCpu(CpuOptions& options) {
  kernels::TuningLimits limits;
  if (const std::optional<int64_t> available = AvailableMemoryBytes()) {
    limits.memory_bytes = std::min(limits.memory_bytes, *available / 4);
  }
  options.tuning = kernels::MeasureTuning(KernelsOf(options), limits);
  options.measure_split = true;
}

absl::StatusOr<DeviceSet> CpuDevices(absl::Span<const std::vector<int>> cpu_sets,
                                     const CpuOptions& options) {
  if (cpu_sets.empty()) return absl::InvalidArgumentError("no CPU devices");
  std::map<int, int> devices_of_node;
  for (const std::vector<int>& cpus : cpu_sets) {
    if (cpus.empty()) return absl::InvalidArgumentError("a CPU device without a CPU");
    ++devices_of_node[NumaNodeOf(cpus[0])];
  }
  const kernels::CpuKernels& kernels = KernelsOf(options);
  DeviceSet set;
  std::map<int, std::pair<CpuMemory*, int>> memory_of_node;  // and the devices it has so far
  for (const auto& [node, count] : devices_of_node) {
    // Each memory has every model, and so the same share.
    const auto memories = static_cast<int64_t>(devices_of_node.size());
    auto memory = std::make_unique<CpuMemory>(kernels, count, options.fold_budget_bytes / memories);
    memory_of_node[node] = {memory.get(), 0};
    set.memories.push_back(std::move(memory));
  }
  for (const std::vector<int>& cpus : cpu_sets) {
    absl::StatusOr<MappedMemory> task_memory = MappedMemory::Map(options.task_memory_bytes);
    if (!task_memory.ok()) return task_memory.status();
    auto& [memory, number] = memory_of_node[NumaNodeOf(cpus[0])];
    set.devices.push_back(
        std::make_unique<CpuDevice>(memory, number++, *std::move(task_memory), cpus, options));
  }
  return set;
}

}  // namespace cellbatch
