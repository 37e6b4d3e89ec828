#include "cells/device/cpu/self_test.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "cells/device/cpu/cell_run.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

constexpr int32_t kMiddle = 7;
constexpr int32_t kMostNodes = 150;  // where b_max is not known yet: two chunks of rows

int32_t MostNodes(const CellType& type) {
  const int32_t configured = type.max_batch;
  return std::max(configured == 0 ? kMostNodes : std::min(configured, kChunkNodes), kMiddle);
}

// A cell's inputs and outputs on rows of their own, filled from a fixed seed.
class Bench {
 public:
  Bench(const PackedCell& cell, int32_t most, CellScratch& scratch)
      : cell_(cell), scratch_(scratch), product_scratch_(1), team_(1, {}, {}) {
    for (const Input& input : cell.type().definition->inputs()) {
      columns_.inputs.emplace_back();
      for (const Column& c : input.reads)
        columns_.inputs.back().push_back(MakeColumn(c, most, true));
    }
    for (const Column& c : cell.type().definition->columns()) {
      columns_.outputs.push_back(MakeColumn(c, most, false));
    }
  }

  // Computes nodes [first, first + count), in that order or backwards.
  void Run(int32_t first, int32_t count, bool backwards) {
    std::vector<Row> rows;
    std::vector<int32_t> offsets;
    for (int32_t i = 0; i < count; ++i) rows.push_back(first + (backwards ? count - 1 - i : i));
    for (int32_t i = 0; i <= count; ++i) offsets.push_back(i);
    InputRows inputs[kMaxInputs];
    for (InputRows& in : inputs) in = {rows.data(), offsets.data()};
    RunCell(cell_, columns_, {count, inputs, rows.data()}, scratch_, {&team_, &product_scratch_});
  }

  std::vector<std::vector<float>> RowValues(Row row) const {
    std::vector<std::vector<float>> values;
    for (const ColumnArray& c : columns_.outputs)
      values.emplace_back(c.At(row), c.At(row) + c.width);
    return values;
  }

 private:
  ColumnArray MakeColumn(const Column& c, int32_t rows, bool fill) {
    const int64_t stride = kernels::PaddedStride(c.width);
    memory_.emplace_back(stride * rows);
    const ColumnArray column = {memory_.back().data(), stride, c.width, c.type};
    for (int32_t r = 0; fill && r < rows; ++r) {
      for (int32_t i = 0; i < c.width; ++i) Fill(column, r, i);
    }
    return column;
  }
  void Fill(const ColumnArray& column, int32_t row, int32_t i) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    const auto bits = static_cast<uint32_t>(state_ >> 40);
    if (column.type == ElementType::kInt32) {
      column.Int32At(row)[i] = static_cast<int32_t>(bits);  // any token: lookups clamp
    } else {
      column.At(row)[i] = static_cast<float>(bits) * 0x1p-23f - 1.0f;
    }
  }

  const PackedCell& cell_;
  CellScratch& scratch_;
  std::vector<kernels::ProductScratch> product_scratch_;
  CoreTeam team_;
  CellColumns columns_;
  std::vector<kernels::PackedMemory> memory_;
  uint64_t state_ = 20150907;
};

absl::Status Compare(const PackedCell& cell, const std::vector<std::vector<float>>& alone,
                     const std::vector<std::vector<float>>& together, int32_t batch) {
  for (size_t c = 0; c < alone.size(); ++c) {
    for (size_t i = 0; i < alone[c].size(); ++i) {
      const auto a = std::bit_cast<uint32_t>(alone[c][i]);
      const auto b = std::bit_cast<uint32_t>(together[c][i]);
      if (a == b) continue;
      return absl::InternalError(
          fmt::format("cell type \"{}\": element {} of column \"{}\" is {:#010x} in a batch of 1 "
                      "and {:#010x} in one of {}",
                      cell.type().name, i, cell.type().definition->columns()[c].name, a, b, batch));
    }
  }
  return absl::OkStatus();
}

}  // namespace

int64_t SelfTestBytes(const CellType& type) {
  int64_t floats = 0;
  const auto add = [&](const Column& c) { floats += kernels::PaddedStride(c.width); };
  for (const Input& input : type.definition->inputs()) {
    for (const Column& c : input.reads) add(c);
  }
  for (const Column& c : type.definition->columns()) add(c);
  return floats * MostNodes(type) * static_cast<int64_t>(sizeof(float));
}

absl::Status SelfTest(const PackedCell& cell, CellScratch& scratch) {
  const int32_t most = MostNodes(cell.type());
  Bench bench(cell, most, scratch);
  bench.Run(0, 1, false);
  const std::vector<std::vector<float>> alone = bench.RowValues(0);
  for (const int32_t batch : {kMiddle, most}) {
    for (const bool backwards : {false, true}) {
      bench.Run(0, batch, backwards);
      if (absl::Status s = Compare(cell, alone, bench.RowValues(0), batch); !s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

}  // namespace cellbatch
