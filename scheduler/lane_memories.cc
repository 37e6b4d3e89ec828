#include "scheduler/lane_memories.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cells/check.h"

namespace cellbatch {
namespace {

constexpr int32_t kMaxRowsOfTable = 1 << 22;

}  // namespace

LaneMemories::LaneMemories(std::vector<LoadedInMemory> loaded) : loaded_(std::move(loaded)) {
  for (int m = 0; m < size(); ++m) {
    if (loaded_[static_cast<size_t>(m)].arena != nullptr) lives_in_ |= MemorySet{1} << m;
  }
  Check(lives_in_ != 0, "a lane lives in no memory");
  first_ = std::countr_zero(lives_in_);
  const auto there = std::find_if(loaded_.begin(), loaded_.end(),
                                  [](const LoadedInMemory& l) { return l.model != nullptr; });
  if (there != loaded_.end()) folded_ = there->model->folded();
}

bool LaneMemories::Fit(absl::Span<const int32_t> counts) const {
  return std::any_of(loaded_.begin(), loaded_.end(), [&](const LoadedInMemory& loaded) {
    bool fits = loaded.arena != nullptr;
    for (size_t t = 0; t < counts.size() && fits; ++t) {
      fits = counts[t] <= loaded.arena->pool(TableId(static_cast<int64_t>(t))).MaxRun();
    }
    return fits;
  });
}

std::vector<int32_t> LaneMemories::MaxRuns(size_t num_tables) const {
  std::vector<int32_t> most(num_tables, std::numeric_limits<int32_t>::max());
  ForEachArena([&](const StateArena& arena) {
    for (size_t t = 0; t < num_tables; ++t) {
      most[t] = std::min(most[t], arena.pool(TableId(static_cast<int64_t>(t))).MaxRun());
    }
  });
  return most;
}

int64_t LaneMemories::rows_used() const {
  int64_t rows = 0;
  ForEachArena([&](const StateArena& arena) { rows += arena.rows_used(); });
  return rows;
}

int64_t LaneMemories::rows_total() const {
  int64_t rows = 0;
  ForEachArena([&](const StateArena& arena) { rows += arena.rows_total(); });
  return rows;
}

int32_t LaneMemories::WarmRows(TableId out, int num_workers, int32_t batch_limit) const {
  int32_t rows = kMaxRowsOfTable;
  ForEachArena(
      [&](const StateArena& arena) { rows = std::min(rows, arena.pool(out).num_rows() - 1); });
  const int32_t share = rows / num_workers;
  Check(share >= 1, "a table has fewer rows than there are workers");
  return std::min(share, batch_limit);
}

void LaneMemories::Unload() {
  for (LoadedInMemory& loaded : loaded_) loaded.model.reset();
}

RowBudget DivideRows(const Model& model, int64_t bytes) {
  int64_t row_bytes = 0;
  for (const TableSpec& table : model.tables) row_bytes += table.row_bytes();
  const int64_t each = std::max<int64_t>(bytes / std::max<int64_t>(row_bytes, 1), 2);
  RowBudget budget;
  for (const TableSpec& table : model.tables) {
    const bool small = table.row_bytes() * 32 <= row_bytes;  // e.g. tokens beside hidden states
    budget.rows.push_back(
        static_cast<int32_t>(std::min<int64_t>(small ? 8 * each : each, kMaxRowsOfTable)));
  }
  return budget;
}

absl::Status CheckRows(const Model& model, const RowBudget& divided, int64_t bytes, int32_t least) {
  for (size_t t = 0; t < divided.rows.size(); ++t) {
    if (divided.rows[t] >= least) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "model \"", model.name, "\": a row budget of ", bytes, " bytes gives table \"",
        model.tables[t].name, "\" ", divided.rows[t], " rows; at least ", least, " are needed"));
  }
  return absl::OkStatus();
}

}  // namespace cellbatch
