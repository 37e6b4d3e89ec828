// What stands where devices and their memories stood, when a recorded schedule is taken again: nothing is computed, tasks
// are done when the record says so, and the words that stop a chain are those that it names.
#ifndef CELLBATCH_SCHEDULER_RECORD_REPLAYED_DEVICE_H_
#define CELLBATCH_SCHEDULER_RECORD_REPLAYED_DEVICE_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cells/device/device.h"

namespace cellbatch {

class ReplayedDevice final : public Device {
 public:
  explicit ReplayedDevice(int64_t task_memory_bytes)
      : task_memory_(static_cast<size_t>(task_memory_bytes)) {
    info_.name = "replayed";
  }
  void Break() { broken_ = true; }

  const DeviceInfo& info() const override { return info_; }
  absl::Span<std::byte> task_memory() override { return absl::MakeSpan(task_memory_); }
  int Enqueue(absl::Span<BatchedTask* const>) override { return 0; }
  bool Advance() override { return false; }
  uint64_t Signal() const override { return 0; }
  absl::Status Health() const override {
    return broken_ ? absl::InternalError("as recorded") : absl::OkStatus();
  }
  void Abandon() override {}

 private:
  DeviceInfo info_;
  std::vector<std::byte> task_memory_;
  bool broken_ = false;
};

// A model of which only words are there.
class ReplayedModel final : public LoadedModel {
 public:
  ReplayedModel(const Model& model, std::vector<int32_t> rows)
      : model_(model), rows_(std::move(rows)) {}

  // What host_column shows for that row.
  void SetWord(TableId table, ColumnId column, Row row, int32_t word) {
    std::vector<int32_t>& words = words_[{table.value(), column.value()}];
    if (words.empty()) words.resize(static_cast<size_t>(trash_row(table)));
    words[static_cast<size_t>(row)] = word;
  }

  // Other columns than those of stops are never anybody's but a streaming request's, and nobody reads them here.
  absl::Span<const int32_t> host_column(TableId table, ColumnId column) const override {
    std::vector<int32_t>& words = words_[{table.value(), column.value()}];
    const auto width =
        static_cast<size_t>(model_.table(table).columns[static_cast<size_t>(column.value())].width);
    if (words.empty()) words.resize(static_cast<size_t>(trash_row(table)) * width);
    return words;
  }
  const Model& model() const override { return model_; }
  Row trash_row(TableId table) const override { return rows_[static_cast<size_t>(table.value())]; }
  int64_t weight_bytes() const override { return 0; }
  int64_t row_bytes() const override { return 0; }

 private:
  const Model& model_;
  const std::vector<int32_t> rows_;  // by table
  mutable std::map<std::pair<int32_t, int32_t>, std::vector<int32_t>>
      words_;  // made when asked for
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_RECORD_REPLAYED_DEVICE_H_
