#include "cells/device/cuda/try_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <utility>

#include "cells/bf16.h"

namespace cellbatch::cuda {
namespace {

constexpr int kFew = 7, kMany = 150;  // several blocks of every kernel
constexpr int kBeyond = 9;            // nodes more than the shape before is for, or fewer
constexpr int64_t kElement = 4;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// Row 0 is zeros; rows 1 to `most` are read; a node that reads row r leaves row most + r.
class Trial {
 public:
  Trial(LaunchQueue& queue, const CudaModel& model, int most, PinnedBuffer lists)
      : queue_(queue), model_(model), most_(most), lists_(std::move(lists)) {}

  static int64_t ListBytes(int most) { return (3 * int64_t{most} + 1) * kElement; }

  // Any bits for tokens (lookups clamp), numbers from -1 to 1 elsewhere.
  absl::Status FillRows() {
    std::mt19937 random(20150907);
    for (size_t t = 0; t < model_.model().tables.size(); ++t) {
      const CudaTable& table = model_.table(TableId(static_cast<int64_t>(t)));
      for (const RowArray& array : table.arrays) {
        const bool tokens = IsInt32(t, array);
        std::vector<uint32_t> rows(Index(array.stride * (most_ + 1)));
        for (size_t i = Index(array.stride); i < rows.size(); ++i) {
          const auto bits = static_cast<uint32_t>(random());
          const float number = static_cast<float>(bits >> 8) * 0x1p-23f - 1.0f;
          rows[i] = tokens ? bits : std::bit_cast<uint32_t>(number);
        }
        absl::Status s = queue_.Bring(array.memory.at(), rows.data(),
                                      static_cast<int64_t>(rows.size()) * kElement);
        if (!s.ok()) return s;
        if (table.rounded.bytes() == 0 || &array != table.arrays.data()) continue;
        if (s = BringRounded(table, rows); !s.ok()) return s;
      }
    }
    return absl::OkStatus();
  }

  absl::Status BringRounded(const CudaTable& table, const std::vector<uint32_t>& rows) {
    std::vector<uint16_t> rounded(rows.size());
    std::transform(rows.begin(), rows.end(), rounded.begin(),
                   [](uint32_t bits) { return RoundedToBf16(std::bit_cast<float>(bits)); });
    return queue_.Bring(table.rounded.at(), rounded.data(),
                        static_cast<int64_t>(rounded.size() * sizeof(uint16_t)));
  }

  absl::Status ZeroRows() {
    for (size_t t = 0; t < model_.model().tables.size(); ++t) {
      const CudaTable& table = model_.table(TableId(static_cast<int64_t>(t)));
      for (const RowArray& array : table.arrays) {
        const int64_t bytes = array.stride * (2 * int64_t{most_} + 1) * kElement;
        if (absl::Status s = queue_.Zero(array.memory.at(), bytes); !s.ok()) return s;
      }
      if (table.rounded.bytes() > 0) {
        const int64_t bytes = table.arrays[0].stride * (2 * int64_t{most_} + 1) * kElement / 2;
        if (absl::Status s = queue_.Zero(table.rounded.at(), bytes); !s.ok()) return s;
      }
      for (const PinnedBuffer& mirror : table.mirrors) {
        std::memset(mirror.data(), 0, static_cast<size_t>(mirror.bytes()));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Try(size_t t, const CellLaunch& launch) {
    const CellType& type = model_.model().types[t];
    std::vector<std::vector<uint32_t>> alone, together;
    if (absl::Status s = Run(type, launch, 1, false, alone); !s.ok()) return s;
    for (const int batch : TrialBatches(launch, most_)) {
      for (const bool backwards : {false, true}) {
        if (absl::Status s = Run(type, launch, batch, backwards, together); !s.ok()) return s;
        if (absl::Status s = Compare(type, alone, together, batch); !s.ok()) return s;
      }
    }
    return absl::OkStatus();
  }

 private:
  bool IsInt32(size_t table, const RowArray& array) const {
    const auto& places = model_.table(TableId(static_cast<int64_t>(table))).columns;
    const auto at = std::find_if(places.begin(), places.end(), [&](const ColumnPlace& place) {
      return place.base == array.memory.as<float>();
    });
    return at != places.end() && at->mirror != nullptr;
  }

  // The row that the node that reads row 1 leaves, as if nobody had left it yet: the same bytes everywhere, other ones before that node
  // alone than before a batch, so that whoever writes no row never leaves what the other did. In batches they are NaN.
  absl::Status SpoilRow(const CudaTable& table, bool alone) {
    const auto spoil = [&](const DeviceBuffer& rows, int64_t row_bytes) {
      const std::vector<uint8_t> bytes(Index(row_bytes), alone ? 0x00 : 0xff);
      return queue_.Bring(rows.at() + static_cast<DevicePtr>((most_ + 1) * row_bytes), bytes.data(),
                          row_bytes);
    };
    for (const RowArray& array : table.arrays) {
      if (absl::Status s = spoil(array.memory, array.stride * kElement); !s.ok()) return s;
    }
    if (table.rounded.bytes() == 0) return absl::OkStatus();
    return spoil(table.rounded, table.arrays[0].stride * kElement / 2);
  }

  // What the node that reads row 1 leaves, by column.
  absl::Status Run(const CellType& type, const CellLaunch& launch, int batch, bool backwards,
                   std::vector<std::vector<uint32_t>>& left) {
    int* const rows = lists_.as<int>();
    int* const outputs = rows + most_;
    int* const offsets = outputs + most_;
    for (int i = 0; i < batch; ++i) {
      rows[i] = 1 + (backwards ? batch - 1 - i : i);
      outputs[i] = most_ + rows[i];
    }
    std::iota(offsets, offsets + batch + 1, 0);
    cuda_abi::TaskSlot& slot = queue_.NextSlot();
    slot = {};
    slot.num_nodes = batch;
    slot.num_inputs = static_cast<int>(type.in.size());
    for (size_t i = 0; i < type.in.size(); ++i) {
      const bool sum = type.definition->inputs()[i].arity == Arity::kSum;
      slot.inputs[i] = {rows, sum ? offsets : nullptr};
      slot.input_rows[i] = batch;
    }
    slot.output_rows = outputs;
    if (absl::Status s = SpoilRow(model_.table(type.out), batch == 1); !s.ok()) return s;
    if (absl::Status s = queue_.Launch(launch, batch); !s.ok()) return s;
    if (absl::Status s = queue_.WaitForAll(); !s.ok()) return s;
    left.clear();
    for (const ColumnPlace& column : model_.table(type.out).columns) {
      std::vector<uint32_t>& bits = left.emplace_back(Index(column.width));
      const float* const from = column.base + (most_ + 1) * column.stride;
      absl::Status s =
          queue_.Fetch(bits.data(), reinterpret_cast<DevicePtr>(from), column.width * kElement);
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status Compare(const CellType& type, const std::vector<std::vector<uint32_t>>& alone,
                       const std::vector<std::vector<uint32_t>>& together, int batch) const {
    for (size_t c = 0; c < alone.size(); ++c) {
      for (size_t i = 0; i < alone[c].size(); ++i) {
        if (alone[c][i] == together[c][i]) continue;
        return absl::InternalError(fmt::format(
            "cell type \"{}\": element {} of column \"{}\" is {:#010x} in a batch of 1 "
            "and {:#010x} in one of {}",
            type.name, i, type.definition->columns()[c].name, alone[c][i], together[c][i], batch));
      }
    }
    return absl::OkStatus();
  }

  LaunchQueue& queue_;
  const CudaModel& model_;
  const int most_;
  const PinnedBuffer lists_;
};

}  // namespace

std::set<int> TrialBatches(const CellLaunch& launch, int most) {
  std::set<int> batches = {std::min(kFew, most), std::min(kMany, most)};
  for (const StepLaunch& step : launch.steps) {
    for (size_t s = 0; s + 1 < step.shapes.size(); ++s) {
      // Of these two, the second shape must be the one that is launched: between them there may be fewer than kBeyond.
      const int launched =
          std::min(step.shapes[s].most_nodes + kBeyond, step.shapes[s + 1].most_nodes);
      batches.insert(std::min(launched, most));
    }
  }
  return batches;
}

absl::Status TryCells(std::shared_ptr<const GpuContext> gpu, LaunchQueue& queue,
                      const CudaModel& model, const std::vector<CellLaunch>& launches) {
  int32_t rows = INT32_MAX;  // of the smallest table
  for (size_t t = 0; t < model.model().tables.size(); ++t) {
    rows = std::min(rows, model.table(TableId(static_cast<int64_t>(t))).rows);
  }
  int asked = 0;
  for (const CellLaunch& launch : launches) {
    asked = std::max(asked, *TrialBatches(launch, kMostLaunchNodes).rbegin());
  }
  const int most = std::min(asked, (rows - 1) / 2);
  if (most < 2) return absl::OkStatus();  // tables in which nobody has company
  auto lists = PinnedBuffer::Make(std::move(gpu), Trial::ListBytes(most));
  if (!lists.ok()) return lists.status();
  Trial trial(queue, model, most, *std::move(lists));
  if (absl::Status s = trial.FillRows(); !s.ok()) return s;
  for (size_t t = 0; t < launches.size(); ++t) {
    if (absl::Status s = trial.Try(t, launches[t]); !s.ok()) return s;
  }
  return trial.ZeroRows();
}

}  // namespace cellbatch::cuda
