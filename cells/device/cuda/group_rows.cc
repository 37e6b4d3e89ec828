#include "cells/device/cuda/group_rows.h"

#include <algorithm>
#include <cstddef>

#include "absl/types/span.h"
#include "cells/check.h"

namespace cellbatch::cuda {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

int64_t RowsOf(const InputRows& input, bool sum, int32_t nodes) {
  return sum ? input.offsets[nodes] : nodes;
}

// The marks of the rows that a copy brings; none: it was blanked.
template <typename Marks>
auto RowsOf(const CopyIn& copy, Marks& tables) {
  if (copy.rows <= 0) return absl::MakeSpan(tables[0]).first(0);
  const auto marks = absl::MakeSpan(tables[Index(copy.table.value())]);
  Check(copy.first > kZeroRow && copy.first + copy.rows < static_cast<int64_t>(marks.size()),
        "a task copies into rows of its tables");
  return marks.subspan(Index(copy.first), Index(copy.rows));
}

}  // namespace

GroupRows::GroupRows(const Model& model, const RowBudget& budget, uint32_t first_launch)
    : launch_(first_launch - 1) {
  for (const CellType& cell : model.types) {
    Type& type = types_.emplace_back();
    for (size_t i = 0; i < cell.in.size(); ++i) {
      type.inputs.push_back(cell.in[i].value());
      type.sums.push_back(cell.definition->inputs()[i].arity == Arity::kSum);
    }
    type.output = cell.out.value();
    const auto& columns = model.table(cell.out).columns;
    type.mirrored = std::any_of(columns.begin(), columns.end(), [](const Column& column) {
      return column.type == ElementType::kInt32;
    });
  }
  for (const int32_t rows : budget.rows) tables_.emplace_back(Index(rows) + 1, 0);
}

void GroupRows::Begin(const BatchedTask& task) {
  if (launch_ == kMostLaunches) {
    for (Marks& marks : tables_) std::fill(marks.begin(), marks.end(), 0);
    launch_ = 0;
  }
  ++launch_;
  Add(task, types_[Index(task.cell.value())]);
}

bool GroupRows::Take(const BatchedTask& task) {
  const Type& type = types_[Index(task.cell.value())];
  if (!MayGo(task, type)) return false;
  Add(task, type);
  return true;
}

bool GroupRows::MayGo(const BatchedTask& task, const Type& type) const {
  for (int32_t i = 0; i < task.num_copies_in; ++i) {
    const auto marks = RowsOf(task.copies_in[i], tables_);
    const auto touched = [&](uint32_t mark) { return mark >= Of(kTouched); };
    if (std::any_of(marks.begin(), marks.end(), touched)) return false;
  }
  const Marks& marks = tables_[Index(type.output)];
  return std::none_of(task.output_rows, task.output_rows + task.num_nodes,
                      [&](Row row) { return marks[Index(row)] == Of(kLeft); });
}

void GroupRows::Add(const BatchedTask& task, const Type& type) {
  const auto touch = [&](Marks& marks, Row row) {
    marks[Index(row)] = std::max(marks[Index(row)], Of(kTouched));
  };
  for (size_t i = 0; i < type.inputs.size(); ++i) {
    Marks& marks = tables_[Index(type.inputs[i])];
    const int64_t rows = RowsOf(task.inputs[i], type.sums[i], task.num_nodes);
    for (int64_t r = 0; r < rows; ++r) touch(marks, task.inputs[i].rows[r]);
  }
  for (int32_t i = 0; i < task.num_copies_in; ++i) {
    for (uint32_t& mark : RowsOf(task.copies_in[i], tables_)) mark = std::max(mark, Of(kTouched));
  }
  Marks& marks = tables_[Index(type.output)];
  const auto trash = static_cast<Row>(marks.size() - 1);
  for (int32_t n = 0; n < task.num_nodes; ++n) {
    const Row row = task.output_rows[n];
    if (row == trash) continue;
    if (type.mirrored) {
      marks[Index(row)] = Of(kLeft);
    } else {
      touch(marks, row);
    }
  }
  for (int32_t i = 0; i < task.num_copies_out; ++i) {
    const CopyOut& copy = task.copies_out[i];
    if (copy.dest == nullptr) continue;  // blanked
    Check(copy.row > kZeroRow && copy.row < trash, "a task copies out rows of its table");
    marks[Index(copy.row)] = Of(kLeft);
  }
}

}  // namespace cellbatch::cuda
