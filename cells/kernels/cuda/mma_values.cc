#include "cells/kernels/cuda/mma_values.h"

#include <bit>

#include "cells/bf16.h"
#include "cells/kernels/cuda/write_tail.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

using cuda_kernels::kMmaChunk;
using cuda_kernels::kMmaPieceChunks;
using cuda_kernels::kMmaPieceDepth;
using cuda_kernels::kMmaUnits;

constexpr int kAligned = 8;  // elements: 16 bytes

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// bf16, two in the room of a float.
class Halves {
 public:
  explicit Halves(int64_t count) : words_(Index((count + 1) / 2)) {}
  void Set(int64_t at, float value) {
    words_[Index(at / 2)] |= uint32_t{RoundedToBf16(value)} << at % 2 * 16;
  }
  std::vector<float> Take() const {
    std::vector<float> floats;
    for (const uint32_t word : words_) floats.push_back(std::bit_cast<float>(word));
    return floats;
  }

 private:
  std::vector<uint32_t> words_;
};

// Where lanes read an element: by tile of units, piece of k, chunk, group, step, lane; of a lane units g and g + 8 at a time.
int64_t PackedAt(int64_t unit, int64_t k, int64_t read, int64_t reads, int64_t pieces) {
  const int64_t in_tile = unit % kMmaUnits, in_chunk = k % kMmaChunk;
  const int64_t piece = unit / kMmaUnits * pieces + k / kMmaPieceDepth;
  const int64_t chunk = piece * kMmaPieceChunks + k % kMmaPieceDepth / kMmaChunk;
  const int64_t step = in_chunk % 8 / 4, lane = in_tile % 8 * 4 + in_chunk / 8;
  const int64_t word = in_chunk % 4 / 2 * 2 + in_tile / 8;
  return ((((chunk * reads + read) * 2 + step) * 32 + lane) * 4 + word) * 2 + k % 2;
}

// As wgmma.cuh has tiles: by pack, piece, row, part.
int64_t WgmmaPackedAt(int64_t unit, int64_t k, int64_t group, int groups, int64_t pieces) {
  const WgmmaPacks packs = WgmmaPacks::For(groups);
  const int64_t unit_tile = unit / kMmaUnits;
  const int64_t pack = unit_tile / packs.unit_tiles;
  const int64_t tile = unit_tile % packs.unit_tiles * groups + group;
  const int64_t row = tile * kMmaUnits + unit % kMmaUnits;
  const int64_t part = (k % kMmaPieceDepth / 8) ^ (row % 8);
  const int64_t piece = pack * pieces + k / kMmaPieceDepth;
  return (piece * packs.tiles * kMmaUnits + row) * kMmaPieceDepth + part * 8 + k % 8;
}

// Rows of a table, cut to what the segment reads of them.
MmaSource TableSource(const SegmentPlan& segment, StepWriter& writer) {
  const LookupSpec& lookup = writer.program().lookups[Index(segment.source.index)];
  const int64_t stride = (segment.depth + kAligned - 1) / kAligned * kAligned;
  const float* const table = writer.Data(lookup.table) + lookup.offset + segment.source.offset;
  Halves packed(lookup.rows * stride);
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

std::vector<float> PackMmaWeights(const SegmentPlan& segment, const std::vector<int>& groups,
                                  int32_t units, int all_groups, const StepWriter& writer) {
  const bool wgmma = writer.target().wgmma;
  const int64_t pieces = MmaPieces(segment.depth);
  const auto reads = static_cast<int64_t>(groups.size());
  const WgmmaPacks packs = WgmmaPacks::For(all_groups);
  Halves packed(wgmma ? packs.Count(units) * pieces * packs.bytes() / 2
                      : MmaTiles(units) * pieces * kMmaPieceDepth * kMmaUnits * reads);
  for (int64_t g = 0; g < reads; ++g) {
    const auto group = groups[Index(g)];
    const ParameterView& view = *segment.weights[Index(group)];
    const float* const data = writer.Data(view.parameter);
    for (int64_t u = 0; u < units; ++u) {
      for (int64_t k = 0; k < segment.depth; ++k) {
        const int64_t at = wgmma ? WgmmaPackedAt(u, k, group, all_groups, pieces)
                                 : PackedAt(u, k, g, reads, pieces);
        packed.Set(at, ElementOf(view, data, u, k));
      }
    }
  }
  return packed.Take();
}

MmaSource MmaSourceOf(const SegmentPlan& segment, StepWriter& writer) {
  if (segment.source.kind == PlaceKind::kTableRow) return TableSource(segment, writer);
  if (segment.source.kind == PlaceKind::kParameter) {
    const float* const data =
        writer.Data(ParameterId(segment.source.index)) + segment.source.offset;
    Halves packed(segment.depth);
    for (int64_t k = 0; k < segment.depth; ++k) packed.Set(k, data[k]);
    return {fmt::format("reinterpret_cast<const unsigned short*>(a.values[{}])",
                        writer.Value(packed.Take()))};
  }
  return {writer.RoundedRow(segment.source, "node"), segment.source.offset % kAligned == 0};
}

}  // namespace cellbatch
