#include "cells/device/cpu/self_test.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "cells/device/cpu/cell_rows.h"
#include "cells/device/cpu/core_team.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

constexpr int32_t kMiddle = 7;
constexpr int32_t kMostNodes = 150;  // where b_max is not known yet: two chunks of rows

int32_t MostNodes(const CellType& type) {
  const int32_t configured = type.max_batch;
  return std::max(configured == 0 ? kMostNodes : std::min(configured, kChunkNodes), kMiddle);
}

// From a fixed seed, all columns alike. Any token will do: lookups clamp.
void Fill(const CellRows& rows, int32_t num_rows) {
  uint64_t state = 20150907;
  for (const std::vector<ColumnArray>& input : rows.columns().inputs) {
    for (const ColumnArray& column : input) {
      for (int32_t i = 0; i < num_rows * column.width; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const auto bits = static_cast<uint32_t>(state >> 40);
        const int32_t row = i / column.width, element = i % column.width;
        if (column.type == ElementType::kInt32) {
          column.Int32At(row)[element] = static_cast<int32_t>(bits);
        } else {
          column.At(row)[element] = static_cast<float>(bits) * 0x1p-23f - 1.0f;
        }
      }
    }
  }
}

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
  const int32_t most = MostNodes(type);
  return CellRows::Bytes(*type.definition, most, most);
}

absl::Status SelfTest(const PackedCell& cell, CellScratch& scratch) {
  const int32_t most = MostNodes(cell.type());
  CellRows rows(*cell.type().definition, most, most);
  Fill(rows, most);
  CoreTeam team(1, {}, {});
  std::vector<kernels::ProductScratch> product_scratch(1);
  // Node i reads row i of every input and leaves row i; in that order or backwards.
  const auto run = [&](int32_t count, bool backwards) {
    std::vector<Row> out;
    std::vector<std::vector<Row>> read;
    for (int32_t i = 0; i < count; ++i) {
      out.push_back(backwards ? count - 1 - i : i);
      read.push_back({out.back()});
    }
    const CellRows::Reads reads(cell.type().definition->inputs().size(), read);
    rows.Run(cell, reads, out, scratch, {&team, &product_scratch});
    return rows.Left(0);
  };
  const std::vector<std::vector<float>> alone = run(1, false);
  for (const int32_t batch : {kMiddle, most}) {
    for (const bool backwards : {false, true}) {
      if (absl::Status s = Compare(cell, alone, run(batch, backwards), batch); !s.ok()) return s;
    }
  }
  // Alone, the row of zeros is not multiplied; beside others it is.
  rows.ZeroRow();
  const std::vector<std::vector<float>> of_zeros = run(1, false);
  return Compare(cell, of_zeros, run(kMiddle, false), kMiddle);
}

}  // namespace cellbatch
