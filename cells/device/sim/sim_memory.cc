#include "cells/device/sim/sim_memory.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cellbatch {
namespace {

constexpr size_t kKeptViolations = 20;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

void SimViolations::Add(std::string what) {
  const std::lock_guard lock(mutex_);
  ++count_;
  if (first_.size() < kKeptViolations) first_.push_back(std::move(what));
}

int64_t SimViolations::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

std::vector<std::string> SimViolations::first() const {
  const std::lock_guard lock(mutex_);
  return first_;
}

SimModel::SimModel(const Model& model, const RowBudget& budget, const SimMemoryOptions& options)
    : model_(model),
      word_rule_(options.word_rule),
      num_rows_(budget.rows),
      rows_(model.tables.size()),
      host_columns_(model.tables.size()) {
  for (size_t t = 0; t < model.tables.size(); ++t) {
    const TableSpec& table = model.tables[t];
    const size_t rows = Index(budget.rows[t]);
    row_bytes_ += budget.rows[t] * table.row_bytes();
    host_columns_[t].resize(table.columns.size());
    for (size_t c = 0; c < table.columns.size(); ++c) {
      if (table.columns[c].type == ElementType::kInt32) host_columns_[t][c].assign(rows, 0);
    }
    if (!options.fingerprints) continue;
    rows_[t].resize(rows);
    rows_[t][0].state = RowState::kValue;
  }
}

absl::Span<const int32_t> SimModel::host_column(TableId table, ColumnId column) const {
  return host_columns_[Index(table.value())][Index(column.value())];
}

bool SimModel::InTable(TableId table, Row row) const {
  return table.valid() && Index(table.value()) < rows_.size() && row >= 0 && row < num_rows(table);
}

void SimModel::Write(TableId table, Row at, Fingerprint fingerprint, RowState state) {
  SimRow& r = row(table, at);
  r.fingerprint = fingerprint;
  r.state = state;
  std::vector<std::vector<int32_t>>& columns = host_columns_[Index(table.value())];
  for (size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].empty()) continue;
    columns[c][Index(at)] =
        word_rule_(ElementOf(fingerprint, ColumnId(static_cast<int64_t>(c)), 0));
  }
}

void SimModel::Read(TableId table, ColumnId column, Fingerprint fingerprint, std::byte* to) const {
  const Column& c = model_.table(table).columns[Index(column.value())];
  for (int32_t k = 0; k < c.width; ++k) {
    uint32_t bits = ElementOf(fingerprint, column, k);
    if (c.type == ElementType::kInt32) bits = static_cast<uint32_t>(word_rule_(bits));
    std::memcpy(to + 4 * Index(k), &bits, 4);
  }
}

void SimModel::Free(TableId table, Row first, int32_t count) {
  for (int32_t i = 0; i < count; ++i) row(table, first + i).state = RowState::kFreed;
}

absl::StatusOr<std::unique_ptr<LoadedModel>> SimMemory::Load(const Model& model,
                                                             const RowBudget& budget) {
  if (budget.rows.size() != model.tables.size()) {
    return absl::InvalidArgumentError(absl::StrCat("rows for ", budget.rows.size(),
                                                   " tables; model \"", model.name, "\" has ",
                                                   model.tables.size()));
  }
  for (int32_t rows : budget.rows) {
    if (rows < 1) return absl::InvalidArgumentError(absl::StrCat(rows, " rows; row 0 is needed"));
  }
  auto made = std::make_unique<SimModel>(model, budget, options_);
  loaded_[model.id] = made.get();
  return made;
}

SimModel* SimMemory::loaded(ModelId model) const {
  const auto found = loaded_.find(model);
  return found == loaded_.end() ? nullptr : found->second;
}

}  // namespace cellbatch
