// A memory whose rows hold fingerprints instead of numbers (see fingerprint.h), and know whether
// they hold still:
//
//   never --copy in--> value            reading anything but `value` is a violation;
//   never --task starts--> written --task ends--> value      so is writing a row twice at once
//   value --Free (a test that knows whose it was)--> freed
//
// Each table has one row more than was asked for, its trash row, which tasks must not name.
//
// Violations are collected, not fatal: a simulation ends by looking. Rows are touched by the
// devices' threads without locks, as real rows are: what races here races there (TSan looks).
//
// With host blocks (SimHostBlocks) the devices reach nothing of the host's but these, as a GPU does:
// a copy from or to anywhere else is a violation.
#ifndef CELLBATCH_CELLS_DEVICE_SIM_SIM_MEMORY_H_
#define CELLBATCH_CELLS_DEVICE_SIM_SIM_MEMORY_H_

#include <cstdint>
#include <functional>
#include <map>
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

class SimHostBlocks;

struct SimMemoryOptions {
  DeviceKind kind = DeviceKind::kCpu;
  bool fingerprints = true;  // false: rows cost nothing and hold nothing (benchmarks)
  WordRule word_rule = WordBelow16;
  // All of host memory that its devices reach; memories may share them. Null: they reach all.
  std::shared_ptr<SimHostBlocks> host_blocks = nullptr;
};

// Host memory for tasks' copies, and which of it is in use. Any thread.
class SimHostBlocks final : public HostBlocks {
 public:
  explicit SimHostBlocks(int64_t most_bytes = INT64_MAX) : most_bytes_(most_bytes) {}
  ~SimHostBlocks() override;
  std::byte* Allocate(int64_t bytes) override;
  void Free(std::byte* block, int64_t bytes) override;  // REQUIRES: of Allocate, with that size

  // All of these bytes lie in a block in use.
  bool Holds(const std::byte* at, size_t bytes) const;
  int64_t bytes_in_use() const;

 private:
  const int64_t most_bytes_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, int64_t> blocks_;  // by begin: bytes
  int64_t bytes_in_use_ = 0;
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
  // unloaded: called when it is destroyed.
  SimModel(const Model& model, const RowBudget& budget, const SimMemoryOptions& options,
           std::function<void(const SimModel&)> unloaded);
  ~SimModel() override { unloaded_(*this); }

  absl::Span<const int32_t> host_column(TableId table, ColumnId column) const override;
  const Model& model() const override { return model_; }
  Row trash_row(TableId table) const override { return num_rows(table); }
  int64_t weight_bytes() const override { return 0; }
  int64_t row_bytes() const override { return row_bytes_; }

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
  const std::function<void(const SimModel&)> unloaded_;
  std::vector<int32_t> num_rows_;          // by table, without its trash row
  std::vector<std::vector<SimRow>> rows_;  // by table, row; the trash row last
  std::vector<std::vector<std::vector<int32_t>>>
      host_columns_;  // by table, column (int32 only), row; the trash row last
  int64_t row_bytes_ = 0;
};

class SimMemory final : public Memory {
 public:
  explicit SimMemory(SimMemoryOptions options = {}) : options_(options) {}

  absl::StatusOr<std::unique_ptr<LoadedModel>> Load(const Model& model,
                                                    const RowBudget& budget) override;
  DeviceKind kind() const override { return options_.kind; }
  HostBlocks* host_blocks() override { return options_.host_blocks.get(); }

  // Whether its devices may copy from and to these.
  bool Reaches(const std::byte* at, size_t bytes) const {
    return options_.host_blocks == nullptr || options_.host_blocks->Holds(at, bytes);
  }
  const SimMemoryOptions& options() const { return options_; }
  SimViolations& violations() { return violations_; }
  // The latest load of this model; null: it is destroyed again. Control thread, as loading and destroying.
  SimModel* loaded(ModelId model) const;

 private:
  const SimMemoryOptions options_;
  SimViolations violations_;
  std::unordered_map<ModelId, SimModel*> loaded_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_SIM_SIM_MEMORY_H_
