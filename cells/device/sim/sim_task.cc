#include "cells/device/sim/sim_task.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cells/check.h"

namespace cellbatch {
namespace {

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

// Where node `node` of a launch of any width writes.
Row OutputRow(const BatchedTask& task, TableId out, int32_t node) {
  return node < task.num_nodes ? task.output_rows[node] : Loaded(task).trash_row(out);
}

// Nobody's: of a task that is padded, or beyond it.
bool IsPadding(const BatchedTask& task, TableId out, int32_t node) {
  return OutputRow(task, out, node) == Loaded(task).trash_row(out);
}

// Visits (node, input, table, row) of everything a launch of `width` nodes reads, in a fixed order.
template <typename Visit>
void ForEachRead(const BatchedTask& task, int32_t width, Visit visit) {
  const CellType& type = Loaded(task).model().type(task.cell);
  for (int32_t node = 0; node < width; ++node) {
    for (size_t i = 0; i < type.in.size(); ++i) {
      const InputRows& input = task.inputs[i];
      const InputId id(static_cast<int64_t>(i));
      if (node >= task.num_nodes) {
        visit(node, id, type.in[i], kZeroRow);
        continue;
      }
      const int32_t begin = input.offsets == nullptr ? node : input.offsets[node];
      const int32_t end = input.offsets == nullptr ? node + 1 : input.offsets[node + 1];
      for (int32_t k = begin; k < end; ++k) {
        if (input.offsets != nullptr && input.rows[k] == kZeroRow) continue;  // adds nothing
        visit(node, id, type.in[i], input.rows[k]);
      }
    }
  }
}

}  // namespace

SimTask::SimTask(std::string device, SimMemory& memory, int launch_multiple)
    : device_(std::move(device)),
      memory_(memory),
      launch_multiple_(launch_multiple),
      garbage_(FingerprintOfInput(absl::MakeConstSpan(
          reinterpret_cast<const std::byte*>(device_.data()), device_.size()))) {
  Check(launch_multiple >= 1, "a launch is as wide as a multiple of at least 1");
  read_.reserve(1 << 12);
  nodes_.reserve(1 << 10);
}

void SimTask::Violated(const BatchedTask& task, std::string what) {
  memory_.violations().Add(
      absl::StrCat(device_, ", task ", task.sequence, " of type ", task.cell.value(), ": ", what));
}

// What the row holds while the task runs; no two tasks of any devices write the same.
Fingerprint SimTask::GarbageOf(const BatchedTask& task, Row row) const {
  return MixBits(garbage_, MixBits(task.sequence, static_cast<uint64_t>(row)));
}

int32_t SimTask::Width(const BatchedTask& task) const {
  return (task.num_nodes + launch_multiple_ - 1) / launch_multiple_ * launch_multiple_;
}

bool SimTask::Reaches(const BatchedTask& task, const std::byte* at, size_t bytes,
                      const char* what) {
  if (memory_.Reaches(at, bytes)) return true;
  Violated(task, absl::StrCat(what, " ", bytes, " bytes of host memory that it does not reach"));
  return false;
}

void SimTask::CopyRowsIn(const BatchedTask& task) {
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
    const Column& column = loaded.model().table(copy.table).columns[Index(copy.column.value())];
    const size_t bytes = Index(column.bytes());
    if (!Reaches(task, copy.source, bytes * Index(copy.rows), "copies in")) continue;
    for (int32_t r = 0; r < copy.rows; ++r) {
      const Row row = copy.first + r;
      // Columns of a row come one after the other; a later one is added to what those before it made.
      const CopyIn* const before = c > 0 ? &task.copies_in[c - 1] : nullptr;
      Fingerprint value = FingerprintOfInput({copy.source + Index(r) * bytes, bytes});
      if (before != nullptr && before->table == copy.table && before->first == copy.first) {
        value = MixBits(loaded.row(copy.table, row).fingerprint, value);
      }
      loaded.Write(copy.table, row, value, RowState::kValue);
    }
  }
}

void SimTask::CopyRowsOut(const BatchedTask& task) {
  SimModel& loaded = Loaded(task);
  const TableId out = loaded.model().type(task.cell).out;
  for (int32_t c = 0; c < task.num_copies_out; ++c) {
    const CopyOut& copy = task.copies_out[c];
    if (copy.dest == nullptr) continue;
    const Column& column = loaded.model().table(out).columns[Index(copy.column.value())];
    if (!Reaches(task, copy.dest, 4 * Index(column.width), "copies out")) continue;
    loaded.Read(out, copy.column, loaded.row(out, copy.row).fingerprint, copy.dest);
  }
}

// Row numbers must lie in their tables before anything touches them. Trash rows lie beyond: padding alone writes them.
void SimTask::CheckNames(const BatchedTask& task) {
  SimModel& loaded = Loaded(task);
  const TableId out = loaded.model().type(task.cell).out;
  Check(task.num_nodes >= 1, "a task has nodes");
  for (int32_t node = 0; node < task.num_nodes; ++node) {
    const Row row = task.output_rows[node];
    Check((loaded.InTable(out, row) && row != kZeroRow) || row == loaded.trash_row(out),
          "a task writes rows of its table, and never row 0");
  }
  ForEachRead(task, task.num_nodes, [&](int32_t node, InputId, TableId table, Row row) {
    Check(loaded.InTable(table, row), "a task reads rows of its tables");
    if (row == kZeroRow || !IsPadding(task, out, node)) return;
    Violated(task, absl::StrCat("node ", node, " is padding and reads row ", row, " of table ",
                                table.value()));
  });
}

void SimTask::Start(const BatchedTask& task) {
  CheckNames(task);
  CopyRowsIn(task);
  SimModel& loaded = Loaded(task);
  const int32_t width = Width(task);
  read_.clear();
  ForEachRead(task, width, [&](int32_t node, InputId input, TableId table, Row row) {
    const SimRow& r = loaded.row(table, row);
    read_.push_back(r.fingerprint);
    if (r.state == RowState::kValue) return;
    Violated(task, absl::StrCat("node ", node, " reads (input ", input.value(), ") row ", row,
                                " of table ", table.value(), ", which ", Name(r.state)));
  });
  const TableId out = loaded.model().type(task.cell).out;
  for (int32_t node = 0; node < width; ++node) {
    const Row row = OutputRow(task, out, node);
    if (!IsPadding(task, out, node) && loaded.row(out, row).state == RowState::kBeingWritten) {
      Violated(task, absl::StrCat("node ", node, " writes row ", row, " of table ", out.value(),
                                  ", which is being written"));
    }
    loaded.Write(out, row, GarbageOf(task, row), RowState::kBeingWritten);
  }
}

absl::Span<const Fingerprint> SimTask::End(const BatchedTask& task) {
  SimModel& loaded = Loaded(task);
  const int32_t width = Width(task);
  const ModelId model = loaded.model().id;
  nodes_.assign(Index(width), NodeFingerprint(model, task.cell).value());
  size_t next = 0;
  NodeFingerprint fingerprint(model, task.cell);
  int32_t current = 0;
  ForEachRead(task, width, [&](int32_t node, InputId input, TableId table, Row row) {
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
  for (int32_t node = 0; node < width; ++node) {
    const Row row = OutputRow(task, out, node);
    const SimRow& was = loaded.row(out, row);
    if (!IsPadding(task, out, node) &&
        (was.state != RowState::kBeingWritten || was.fingerprint != GarbageOf(task, row))) {
      Violated(task, absl::StrCat("node ", node, " writes row ", row, " of table ", out.value(),
                                  ", which ", Name(was.state), " meanwhile"));
    }
    loaded.Write(out, row, nodes_[Index(node)], RowState::kValue);
  }
  CopyRowsOut(task);
  return absl::MakeConstSpan(nodes_).first(Index(task.num_nodes));
}

void SimTask::GiveUp(const BatchedTask& task) {
  SimModel& loaded = Loaded(task);
  const TableId out = loaded.model().type(task.cell).out;
  for (int32_t node = 0; node < task.num_nodes; ++node) {
    if (!IsPadding(task, out, node)) loaded.Free(out, task.output_rows[node], 1);
  }
}

}  // namespace cellbatch
