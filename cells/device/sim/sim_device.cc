#include "cells/device/sim/sim_device.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cells/check.h"

namespace cellbatch {
namespace {

constexpr Fingerprint kGarbage = 0xDEADDEADDEADDEADULL;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// The one place that writes rows of a loaded model: tasks name it as constant.
SimModel& Loaded(const BatchedTask& task) {
  return *const_cast<SimModel*>(static_cast<const SimModel*>(task.model));
}

const char* Name(RowState state) {
  switch (state) {
    case RowState::kNever:
      return "was never written";
    case RowState::kValue:
      return "holds a value";
    case RowState::kBeingWritten:
      return "is being written";
    case RowState::kFreed:
      break;
  }
  return "was freed";
}

}  // namespace

SimDevice::SimDevice(SimDeviceOptions options, SimMemory& memory, SimTime& time)
    : options_(std::move(options)),
      memory_(memory),
      time_(time),
      info_{.name = options_.name, .memory = &memory, .cores = 1, .computes_in_advance = true},
      task_memory_(options_.task_memory_bytes),
      random_(options_.seed),
      delay_chance_(options_.delay_chance),
      refusal_chance_(options_.refusal_chance),
      max_delay_ns_(options_.max_delay_ns),
      queue_(Index(options_.queue_capacity)) {
  Check(options_.queue_capacity >= 1, "a device takes at least one task");
  Check(options_.signal_bits >= 8 && options_.signal_bits <= 64, "a signal has 8 to 64 bits");
  read_.reserve(1 << 12);
  nodes_.reserve(1 << 10);
}

void SimDevice::set_faults(double delay_chance, int64_t max_delay_ns, double refusal_chance) {
  delay_chance_ = delay_chance;
  max_delay_ns_ = max_delay_ns;
  refusal_chance_ = refusal_chance;
}

int SimDevice::Enqueue(absl::Span<BatchedTask* const> tasks) {
  if (failed()) return 0;
  uint64_t room = queue_.size() - (taken_ - counter_);
  if (refusal_chance_ > 0 && std::bernoulli_distribution(refusal_chance_)(random_)) {
    room = std::uniform_int_distribution<uint64_t>(0, room)(random_);
  }
  const size_t n = std::min<size_t>(room, tasks.size());
  for (size_t i = 0; i < n; ++i) {
    if (tasks[i]->sequence != taken_ + 1) {
      Violated(*tasks[i], absl::StrCat("its sequence follows ", taken_));
    }
    queue_[taken_++ % queue_.size()] = tasks[i];
  }
  return static_cast<int>(n);
}

bool SimDevice::Advance() {
  if (failed() || counter_ == taken_) return false;
  if (tasks_done() == options_.fails_after_tasks) {
    Fail(absl::InternalError("a simulated failure"));
    return true;
  }
  if (options_.zero_cost) {
    counter_ = taken_;
    ShowSignal();
    return true;
  }
  BatchedTask& task = *queue_[counter_ % queue_.size()];
  if (!running_) {
    Start(task);
    running_ = true;
    end_ns_ = time_.now_ns() + Duration(task);
    return true;
  }
  if (time_.now_ns() < end_ns_) {
    if (!moves_time_) return false;
    time_.AdvanceTo(end_ns_);
  }
  End(task);
  running_ = false;
  ++counter_;
  ShowSignal();
  return true;
}

// Widens the device's counter, which must not move by half its range between two calls.
uint64_t SimDevice::Signal() const {
  const int unused = 64 - options_.signal_bits;
  const int64_t moved = static_cast<int64_t>((shown_ - widened_) << unused) >> unused;
  widened_ += static_cast<uint64_t>(moved);
  return widened_;
}

void SimDevice::ShowSignal() {
  if (held_) return;
  shown_ = options_.signal_bits == 64 ? counter_ : counter_ & ((1ULL << options_.signal_bits) - 1);
}

void SimDevice::HoldSignal(bool held) {
  held_ = held;
  ShowSignal();
}

void SimDevice::Fail(absl::Status why) {
  Check(!why.ok(), "a failure has a reason");
  if (failed()) return;
  health_ = std::move(why);
  if (!running_ || !memory_.options().fingerprints) return;
  const BatchedTask& task = *queue_[counter_ % queue_.size()];  // it writes no more
  SimModel& loaded = Loaded(task);
  const TableId out = loaded.model().type(task.cell).out;
  for (int32_t node = 0; node < task.num_nodes; ++node) loaded.Free(out, task.output_rows[node], 1);
}

std::optional<int64_t> SimDevice::next_event_ns() const {
  if (!running_ || failed()) return std::nullopt;
  return end_ns_;
}

int64_t SimDevice::Duration(const BatchedTask& task) {
  const size_t type = Index(task.cell.value());
  const SimCost cost = type < options_.costs.size() ? options_.costs[type] : options_.cost;
  int64_t ns = cost.task_ns + cost.node_ns * task.num_nodes;
  if (delay_chance_ > 0 && std::bernoulli_distribution(delay_chance_)(random_)) {
    ns += std::uniform_int_distribution<int64_t>(0, max_delay_ns_)(random_);
  }
  return ns;
}

void SimDevice::Violated(const BatchedTask& task, std::string what) {
  memory_.violations().Add(absl::StrCat(options_.name, ", task ", task.sequence, " of type ",
                                        task.cell.value(), ": ", what));
}

// Visits (node, input, table, row) of everything the task reads, in a fixed order.
template <typename Visit>
void SimDevice::ForEachRead(const BatchedTask& task, Visit visit) {
  const CellType& type = Loaded(task).model().type(task.cell);
  for (int32_t node = 0; node < task.num_nodes; ++node) {
    for (size_t i = 0; i < type.in.size(); ++i) {
      const InputRows& input = task.inputs[i];
      const int32_t begin = input.offsets == nullptr ? node : input.offsets[node];
      const int32_t end = input.offsets == nullptr ? node + 1 : input.offsets[node + 1];
      for (int32_t k = begin; k < end; ++k) {
        if (input.offsets != nullptr && input.rows[k] == kZeroRow) continue;  // adds nothing
        visit(node, InputId(static_cast<int64_t>(i)), type.in[i], input.rows[k]);
      }
    }
  }
}

void SimDevice::CopyRowsIn(const BatchedTask& task) {
  SimModel& loaded = Loaded(task);
  for (int32_t c = 0; c < task.num_copies_in; ++c) {
    const CopyIn& copy = task.copies_in[c];
    if (copy.rows == 0) continue;
    if (!loaded.InTable(copy.table, copy.first) || copy.first == kZeroRow || copy.rows < 0 ||
        !loaded.InTable(copy.table, copy.first + copy.rows - 1)) {
      Violated(task, absl::StrCat("copies ", copy.rows, " rows in at row ", copy.first,
                                  " of table ", copy.table.value()));
      continue;
    }
    const size_t bytes = Index(loaded.model().table(copy.table).row_bytes());
    for (int32_t r = 0; r < copy.rows; ++r) {
      const Fingerprint value = FingerprintOfInput({copy.source + Index(r) * bytes, bytes});
      loaded.Write(copy.table, copy.first + r, value, RowState::kValue);
    }
  }
}

// Row numbers must lie in their tables before anything touches them.
void SimDevice::CheckNames(const BatchedTask& task) {
  SimModel& loaded = Loaded(task);
  const TableId out = loaded.model().type(task.cell).out;
  Check(task.num_nodes >= 1, "a task has nodes");
  for (int32_t node = 0; node < task.num_nodes; ++node) {
    Check(loaded.InTable(out, task.output_rows[node]) && task.output_rows[node] != kZeroRow,
          "a task writes rows of its table, and never row 0");
  }
  ForEachRead(task, [&](int32_t, InputId, TableId table, Row row) {
    Check(loaded.InTable(table, row), "a task reads rows of its tables");
  });
}

void SimDevice::Start(BatchedTask& task) {
  if (!memory_.options().fingerprints) return;
  CheckNames(task);
  CopyRowsIn(task);
  SimModel& loaded = Loaded(task);
  read_.clear();
  ForEachRead(task, [&](int32_t node, InputId input, TableId table, Row row) {
    const SimRow& r = loaded.row(table, row);
    read_.push_back(r.fingerprint);
    if (r.state == RowState::kValue) return;
    Violated(task, absl::StrCat("node ", node, " reads (input ", input.value(), ") row ", row,
                                " of table ", table.value(), ", which ", Name(r.state)));
  });
  if (observer_ != nullptr) observer_->Started(*this, task);
  const TableId out = loaded.model().type(task.cell).out;
  for (int32_t node = 0; node < task.num_nodes; ++node) {
    const Row row = task.output_rows[node];
    if (loaded.row(out, row).state == RowState::kBeingWritten) {
      Violated(task, absl::StrCat("node ", node, " writes row ", row, " of table ", out.value(),
                                  ", which is being written"));
    }
    const Fingerprint garbage =
        MixBits(kGarbage, MixBits(task.sequence, static_cast<uint64_t>(row)));
    loaded.Write(out, row, garbage, RowState::kBeingWritten);
  }
}

void SimDevice::End(BatchedTask& task) {
  if (!memory_.options().fingerprints) return;
  SimModel& loaded = Loaded(task);
  const ModelId model = loaded.model().id;
  nodes_.assign(Index(task.num_nodes), NodeFingerprint(model, task.cell).value());
  size_t next = 0;
  NodeFingerprint fingerprint(model, task.cell);
  int32_t current = 0;
  ForEachRead(task, [&](int32_t node, InputId input, TableId table, Row row) {
    if (loaded.row(table, row).fingerprint != read_[next++]) {
      Violated(task, absl::StrCat("node ", node, ": input ", input.value(), " (row ", row,
                                  " of table ", table.value(), ") changed while it computed"));
    }
    if (node != current) {
      fingerprint = NodeFingerprint(model, task.cell);
      current = node;
    }
    fingerprint.Read(input, read_[next - 1]);
    nodes_[Index(node)] = fingerprint.value();
  });
  const TableId out = loaded.model().type(task.cell).out;
  for (int32_t node = 0; node < task.num_nodes; ++node) {
    loaded.Write(out, task.output_rows[node], nodes_[Index(node)], RowState::kValue);
  }
  for (int32_t c = 0; c < task.num_copies_out; ++c) {
    const CopyOut& copy = task.copies_out[c];
    if (copy.dest == nullptr) continue;
    loaded.Read(out, copy.column, loaded.row(out, copy.row).fingerprint, copy.dest);
  }
  if (observer_ != nullptr) observer_->Done(*this, task, nodes_);
}

}  // namespace cellbatch
