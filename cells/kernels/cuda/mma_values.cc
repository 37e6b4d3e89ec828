#include "cells/kernels/cuda/mma_values.h"

#include <bit>
#include <cmath>

#include "cells/bf16.h"
#include "cells/check.h"
#include "cells/kernels/cuda/write_tail.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

using cuda_kernels::kMmaPieceBytes;
using cuda_kernels::kMmaPieceChunks;
using cuda_kernels::kMmaUnits;
using cuda_kernels::MmaElementBytes;
using cuda_kernels::MmaNumbers;

constexpr int kAligned = 8;        // bf16 of 16 bytes
constexpr int kAlignedFloats = 4;  // fp32 likewise
constexpr int kPieceWords = kMmaPieceBytes / 4, kChunkWords = kPieceWords / kMmaPieceChunks;
constexpr int kWgmmaDepth = kMmaPieceBytes / 2;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// As products read it: a denormal is zero, and what is no number stays none without its lowest bits.
uint32_t Fp32Bits(float value) {
  if (std::isnan(value)) return 0x7fffffffu;
  if (std::fpclassify(value) == FP_SUBNORMAL) value = std::copysign(0.0f, value);
  return std::bit_cast<uint32_t>(value);
}

// To the nearest, ties away from zero.
uint32_t Tf32Bits(float value) {
  const uint32_t bits = Fp32Bits(value);
  return std::isnan(value) ? bits : (bits + 0x1000u) & 0xffffe000u;
}

// Elements as they lie in memory, where floats are: bf16, two in the room of one, or fp32 or tf32.
class Packed {
 public:
  Packed(int64_t count, MmaNumbers numbers)
      : numbers_(numbers), words_(Index((count * MmaElementBytes(numbers) + 3) / 4)) {}
  void Set(int64_t at, float value) {
    switch (numbers_) {
      case MmaNumbers::kFp32:
        words_[Index(at)] = Fp32Bits(value);
        return;
      case MmaNumbers::kTf32:
        words_[Index(at)] = Tf32Bits(value);
        return;
      case MmaNumbers::kBf16:
        words_[Index(at / 2)] |= uint32_t{RoundedToBf16(value)} << at % 2 * 16;
        return;
    }
  }
  std::vector<float> Take() const {
    std::vector<float> floats;
    for (const uint32_t word : words_) floats.push_back(std::bit_cast<float>(word));
    return floats;
  }

 private:
  const MmaNumbers numbers_;
  std::vector<uint32_t> words_;
};

// Where lanes read a word of 4 bytes, of a unit's the `word`-th: by tile of units, piece, chunk, group, step, lane; of a lane units
// g and g + 8 at a time.
int64_t PackedWordAt(int64_t unit, int64_t word, int64_t read, int64_t reads, int64_t pieces) {
  const int64_t in_tile = unit % kMmaUnits, in_chunk = word % kChunkWords;
  const int64_t piece = unit / kMmaUnits * pieces + word / kPieceWords;
  const int64_t chunk = piece * kMmaPieceChunks + word % kPieceWords / kChunkWords;
  const int64_t step = in_chunk % 4 / 2, lane = in_tile % 8 * 4 + in_chunk / 4;
  const int64_t of_lane = in_chunk % 2 * 2 + in_tile / 8;
  return (((chunk * reads + read) * 2 + step) * 32 + lane) * 4 + of_lane;
}

// As wgmma.cuh has tiles: by pack, piece, row, part.
int64_t WgmmaPackedAt(int64_t unit, int64_t k, int64_t group, int groups, int64_t pieces) {
  const WgmmaPacks packs = WgmmaPacks::For(groups);
  const int64_t unit_tile = unit / kMmaUnits;
  const int64_t pack = unit_tile / packs.unit_tiles;
  const int64_t tile = unit_tile % packs.unit_tiles * groups + group;
  const int64_t row = tile * kMmaUnits + unit % kMmaUnits;
  const int64_t part = (k % kWgmmaDepth / 8) ^ (row % 8);
  const int64_t piece = pack * pieces + k / kWgmmaDepth;
  return (piece * packs.tiles * kMmaUnits + row) * kWgmmaDepth + part * 8 + k % 8;
}

// Fp32 are read where they lie, also to be rounded to tf32.
MmaSource WholeSource(const SegmentPlan& segment, StepWriter& writer) {
  const Place& source = segment.source;
  bool aligned = source.offset % kAlignedFloats == 0;
  if (source.kind == PlaceKind::kTableRow) {
    const LookupSpec& lookup = writer.program().lookups[Index(source.index)];
    aligned = (lookup.offset + source.offset) % kAlignedFloats == 0 &&
              lookup.stride % kAlignedFloats == 0;
  }
  return {writer.Row(source, "node"), aligned};
}

// Rows of a table, cut to what the segment reads of them.
MmaSource TableSource(const SegmentPlan& segment, StepWriter& writer) {
  const LookupSpec& lookup = writer.program().lookups[Index(segment.source.index)];
  const int64_t stride = (segment.depth + kAligned - 1) / kAligned * kAligned;
  const float* const table = writer.Data(lookup.table) + lookup.offset + segment.source.offset;
  Packed packed(lookup.rows * stride, MmaNumbers::kBf16);
  for (int64_t r = 0; r < lookup.rows; ++r) {
    for (int64_t k = 0; k < segment.depth; ++k) {
      packed.Set(r * stride + k, table[r * lookup.stride + k]);
    }
  }
  return {
      fmt::format("reinterpret_cast<const unsigned short*>(a.values[{}]) + "
                  "a.tokens[{} * a.most_nodes + node] * {}LL",
                  writer.Value(packed.Take()), segment.source.index, stride)};
}

}  // namespace

MmaNumbers MmaNumbersOf(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return MmaNumbers::kFp32;
    case Precision::kTf32:
      return MmaNumbers::kTf32;
    case Precision::kBf16:
      return MmaNumbers::kBf16;
    case Precision::kW8:
    case Precision::kFp32Split:
      break;
  }
  Check(false, "tensor cores multiply fp32, tf32 or bf16");
  NoSuchEnumerator();
}

std::vector<float> PackMmaWeights(const SegmentPlan& segment, const std::vector<int>& groups,
                                  int32_t units, int all_groups, bool wgmma,
                                  const StepWriter& writer) {
  const MmaNumbers numbers = MmaNumbersOf(writer.program().precision);
  const int64_t pieces = MmaPieces(segment.depth, numbers);
  const auto reads = static_cast<int64_t>(groups.size());
  const WgmmaPacks packs = WgmmaPacks::For(all_groups);
  const int64_t of_word = 4 / MmaElementBytes(numbers);  // elements
  Packed packed(wgmma ? packs.Count(units) * pieces * packs.bytes() / 2
                      : MmaTiles(units) * pieces * MmaPieceDepth(numbers) * kMmaUnits * reads,
                numbers);
  for (int64_t g = 0; g < reads; ++g) {
    const auto group = groups[Index(g)];
    const ParameterView& view = *segment.weights[Index(group)];
    const float* const data = writer.Data(view.parameter);
    for (int64_t u = 0; u < units; ++u) {
      for (int64_t k = 0; k < segment.depth; ++k) {
        const int64_t at =
            wgmma ? WgmmaPackedAt(u, k, group, all_groups, pieces)
                  : PackedWordAt(u, k / of_word, g, reads, pieces) * of_word + k % of_word;
        packed.Set(at, ElementOf(view, data, u, k));
      }
    }
  }
  return packed.Take();
}

MmaSource MmaSourceOf(const SegmentPlan& segment, StepWriter& writer) {
  if (writer.program().precision != Precision::kBf16) return WholeSource(segment, writer);
  if (segment.source.kind == PlaceKind::kTableRow) return TableSource(segment, writer);
  if (segment.source.kind == PlaceKind::kParameter) {
    const float* const data =
        writer.Data(ParameterId(segment.source.index)) + segment.source.offset;
    Packed packed(segment.depth, MmaNumbers::kBf16);
    for (int64_t k = 0; k < segment.depth; ++k) packed.Set(k, data[k]);
    return {fmt::format("reinterpret_cast<const unsigned short*>(a.values[{}])",
                        writer.Value(packed.Take()))};
  }
  return {writer.RoundedRow(segment.source, "node"), segment.source.offset % kAligned == 0};
}

}  // namespace cellbatch
