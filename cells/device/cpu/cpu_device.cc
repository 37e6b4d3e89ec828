#include "cells/device/cpu/cpu_device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "cells/device/check_task.h"
#include "cells/device/cpu/cpu_features.h"
#include "cells/device/cpu/cpu_topology.h"
#include "cells/device/cpu/process_limits.h"
#include "cells/device/cpu/split_costs.h"
#include "cells/device/cpu/stay_on.h"
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
  const ColumnArray& column = model.column(copy.table, copy.column);
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
                     const CpuOptions& options, bool stay)
    : info_{"cpu:" + CpuListText(cpus), memory, static_cast<int>(cpus.size()), true},
      number_(number),
      task_memory_(std::move(task_memory)),
      stays_on_(options.pin_threads ? std::vector<int>{cpus[0]}
                : stay              ? cpus
                                    : std::vector<int>()),
      team_(static_cast<int>(cpus.size()), options.pin_threads ? cpus : std::vector<int>(),
            options.spin),
      costs_{options.tuning.multiply_adds_per_ns},
      queue_(static_cast<size_t>(options.queue_capacity)),
      signal_(options.first_sequence - 1) {
  product_scratch_.reserve(cpus.size());
  for (size_t i = 0; i < cpus.size(); ++i) product_scratch_.emplace_back(options.tuning);
  if (options.measure_split) {
    RunOn(stays_on_, [this] { costs_ = MeasureSplitCosts(team_, costs_.per_ns); });
  }
  info_.kind = fmt::format("{}; {}; {} cores", DetectCpuFeatures().ToString(),
                           KernelsOf(options).name, cpus.size());
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
  const NodeLists nodes = {task.num_nodes, task.inputs, task.output_rows};
  const CellColumns& columns =
      task.measured ? model.measured_columns(task.cell) : model.columns(task.cell);
  RunCell(model.cell(task.cell), columns, nodes, model.scratch(number_),
          {&team_, &product_scratch_, costs_});
  const TableId out = model.cell(task.cell).type().out;
  for (int32_t i = 0; i < task.num_copies_out; ++i) ReadRow(model, out, task.copies_out[i]);
}

bool CpuDevice::Advance() {
  if (head_ == tail_) return false;
  if (!stays_) {
    StayOn(stays_on_);  // refused: it runs where it may
    stays_ = true;
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
  options.tuning.multiply_adds_per_ns = kernels::MeasureMultiplyAddsPerNs(KernelsOf(options));
  options.measure_split = true;
}

bool SplitsFp32(const CpuOptions& options) { return KernelsOf(options).split_to_bf16 != nullptr; }

namespace {

// What devices of one node share.
struct CpuNode {
  std::vector<int> cpus;
  int devices = 0, made = 0;
  CpuMemory* memory = nullptr;
};

}  // namespace

absl::StatusOr<DeviceSet> CpuDevices(absl::Span<const std::vector<int>> cpu_sets,
                                     const CpuOptions& options) {
  if (cpu_sets.empty()) return absl::InvalidArgumentError("no CPU devices");
  std::map<int, CpuNode> nodes;
  for (const std::vector<int>& cpus : cpu_sets) {
    if (cpus.empty()) return absl::InvalidArgumentError("a CPU device without a CPU");
    CpuNode& node = nodes[options.node_of(cpus[0])];
    node.cpus.insert(node.cpus.end(), cpus.begin(), cpus.end());
    ++node.devices;
  }
  const bool several = nodes.size() > 1;
  DeviceSet set;
  for (auto& [_, node] : nodes) {
    if (!several) node.cpus.clear();  // anywhere
    // Each memory has every model, and so the same share.
    auto memory = std::make_unique<CpuMemory>(
        KernelsOf(options), node.devices,
        options.fold_budget_bytes / static_cast<int64_t>(nodes.size()),
        [] { return AvailableMemoryBytes(); }, node.cpus);
    node.memory = memory.get();
    set.memories.push_back(std::move(memory));
  }
  for (const std::vector<int>& cpus : cpu_sets) {
    absl::Status made;
    RunOn(several ? cpus : std::vector<int>(), [&] {
      absl::StatusOr<MappedMemory> task_memory = MappedMemory::Map(options.task_memory_bytes);
      made = task_memory.status();
      if (!made.ok()) return;
      CpuNode& node = nodes[options.node_of(cpus[0])];
      set.devices.push_back(std::make_unique<CpuDevice>(
          node.memory, node.made++, *std::move(task_memory), cpus, options, several));
    });
    if (!made.ok()) return made;
  }
  return set;
}

}  // namespace cellbatch
