// A memory whose rows hold fingerprints instead of numbers (see fingerprint.h), and know whether
// they hold still:
//
//   never --copy in--> value            reading anything but `value` is a violation;
//   never --task starts--> written --task ends--> value      so is writing a row twice at once
//   value --Free (a test that knows whose it was)--> freed
//
// Violations are collected, not fatal: a simulation ends by looking. Rows are touched by the
// devices' threads without locks, as real rows are: what races here races there (TSan looks).
#ifndef CELLBATCH_CELLS_DEVICE_SIM_SIM_MEMORY_H_
#define CELLBATCH_CELLS_DEVICE_SIM_SIM_MEMORY_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "cells/device/memory.h"
#include "cells/device/sim/fingerprint.h"

namespace cellbatch {

// The value an int32 column shows for 32 random bits of its row.
using WordRule = int32_t (*)(uint32_t bits);
constexpr int32_t WordBelow16(uint32_t bits) { return static_cast<int32_t>(bits % 16); }

struct SimMemoryOptions {
  bool fingerprints = true;  // false: rows cost nothing and hold nothing (benchmarks)
  WordRule word_rule = WordBelow16;
};

// Which promises were broken. Any thread.
class SimViolations {
 public:
  void Add(std::string what);
  int64_t count() const;
  std::vector<std::string> first() const;  // at most 20 of them

 private:
  mutable std::mutex mutex_;
  int64_t count_ = 0;
  std::vector<std::string> first_;
};

enum class RowState : uint8_t { kNever, kValue, kBeingWritten, kFreed };
struct SimRow {
  Fingerprint fingerprint = kZeroFingerprint;
  RowState state = RowState::kNever;
};

class SimModel final : public LoadedModel {
 public:
  SimModel(const Model& model, const RowBudget& budget, const SimMemoryOptions& options);

  absl::Span<const int32_t> host_column(TableId table, ColumnId column) const override;
  int64_t weight_bytes() const override { return 0; }
  int64_t row_bytes() const override { return row_bytes_; }

  const Model& model() const { return model_; }
  int32_t num_rows(TableId table) const { return num_rows_[static_cast<size_t>(table.value())]; }
  bool InTable(TableId table, Row row) const;
  SimRow& row(TableId table, Row row) {
    return rows_[static_cast<size_t>(table.value())][static_cast<size_t>(row)];
  }
  // Sets the row's fingerprint and what its int32 columns show.
  void Write(TableId table, Row row, Fingerprint fingerprint, RowState state);
  // What one column of such a row looks like: 4 bytes an element.
  void Read(TableId table, ColumnId column, Fingerprint fingerprint, std::byte* to) const;
  // Whoever reads these rows before they are written again reads what is not his.
  void Free(TableId table, Row first, int32_t count);

 private:
  const Model& model_;
  const WordRule word_rule_;
  std::vector<int32_t> num_rows_;          // by table
  std::vector<std::vector<SimRow>> rows_;  // by table, row
  std::vector<std::vector<std::vector<int32_t>>>
      host_columns_;  // by table, column (int32 only), row
  int64_t row_bytes_ = 0;
};

class SimMemory final : public Memory {
 public:
  explicit SimMemory(SimMemoryOptions options = {}) : options_(options) {}

  absl::StatusOr<std::unique_ptr<LoadedModel>> Load(const Model& model,
                                                    const RowBudget& budget) override;

  const SimMemoryOptions& options() const { return options_; }
  SimViolations& violations() { return violations_; }
  // The latest load of this model; dangles once its owner destroyed it. Control thread.
  SimModel* loaded(ModelId model) const;

 private:
  const SimMemoryOptions options_;
  SimViolations violations_;
  std::unordered_map<ModelId, SimModel*> loaded_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_SIM_SIM_MEMORY_H_
