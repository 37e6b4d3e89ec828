#include "cells/device/sim/sim_memory.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cells/check.h"

namespace cellbatch {
namespace {

constexpr size_t kKeptViolations = 20;
constexpr size_t kBlockAlignment = 64;

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

SimHostBlocks::~SimHostBlocks() {
  for (const auto& [block, bytes] : blocks_) std::free(const_cast<std::byte*>(block));
}

std::byte* SimHostBlocks::Allocate(int64_t bytes) {
  const size_t whole = (Index(bytes) + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  const std::lock_guard lock(mutex_);
  if (bytes > most_bytes_ - bytes_in_use_) return nullptr;
  auto* const block = static_cast<std::byte*>(std::aligned_alloc(kBlockAlignment, whole));
  if (block == nullptr) return nullptr;
  blocks_[block] = bytes;
  bytes_in_use_ += bytes;
  return block;
}

void SimHostBlocks::Free(std::byte* block, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(block);
  Check(found != blocks_.end() && found->second == bytes, "a host block is freed as it was made");
  blocks_.erase(found);
  bytes_in_use_ -= bytes;
  std::free(block);
}

bool SimHostBlocks::Holds(const std::byte* at, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  auto found = blocks_.upper_bound(at);
  if (found == blocks_.begin()) return false;
  --found;
  return at + bytes <= found->first + found->second;
}

int64_t SimHostBlocks::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  return bytes_in_use_;
}

SimModel::SimModel(const Model& model, const RowBudget& budget, const SimMemoryOptions& options,
                   std::function<void(const SimModel&)> unloaded)
    : model_(model),
      word_rule_(options.word_rule),
      unloaded_(std::move(unloaded)),
      num_rows_(budget.rows),
      rows_(model.tables.size()),
      host_columns_(model.tables.size()) {
  for (size_t t = 0; t < model.tables.size(); ++t) {
    const TableSpec& table = model.tables[t];
    const size_t rows = Index(budget.rows[t]) + 1;  // the last one is trash
    row_bytes_ += static_cast<int64_t>(rows) * table.row_bytes();
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
  return absl::MakeConstSpan(host_columns_[Index(table.value())][Index(column.value())])
      .first(Index(num_rows(table)));
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
  const ModelId id = model.id;
  auto made = std::make_unique<SimModel>(model, budget, options_, [this, id](const SimModel& gone) {
    const auto found = loaded_.find(id);
    if (found != loaded_.end() && found->second == &gone) loaded_.erase(found);
  });
  loaded_[id] = made.get();
  return made;
}

SimModel* SimMemory::loaded(ModelId model) const {
  const auto found = loaded_.find(model);
  return found == loaded_.end() ? nullptr : found->second;
}

}  // namespace cellbatch
