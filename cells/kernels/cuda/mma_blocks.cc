#include "cells/kernels/cuda/mma_blocks.h"

#include <algorithm>
#include <bit>

#include "cells/kernels/cuda/mma_values.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

using cuda_kernels::kMmaNodes;
using cuda_kernels::kMmaPieceBytes;
using cuda_kernels::kMmaUnits;
using cuda_kernels::MmaNumbers;

constexpr int kRingBytes = 180 << 10;  // of shared memory, at most

// As many stages as there is room for, up to eight.
int StagesOf(int stage_bytes) { return std::min(8, kRingBytes / stage_bytes); }

const char* Name(MmaNumbers numbers) {
  return numbers == MmaNumbers::kBf16 ? "MmaNumbers::kBf16" : "MmaNumbers::kFp32";
}

struct OfProduct {
  MmaNumbers numbers;
  int groups, reads;
};

// Tiles of units and nodes of a warp; warps along units and groups (groups first), and along nodes.
MmaBlock OfWarps(const OfProduct& product, int most_nodes, int unit_tiles, int node_tiles,
                 int warps, int node_warps) {
  const int groups = product.groups;
  const int group_warps =
      std::min(warps, static_cast<int>(std::bit_floor(static_cast<unsigned>(groups))));
  const int of_warp = (groups + group_warps - 1) / group_warps, unit_warps = warps / group_warps;
  const int nodes = kMmaNodes * node_tiles * node_warps;
  const int units = kMmaUnits * unit_tiles * unit_warps;
  const int bytes = kMmaPieceBytes * (nodes + units * product.reads);
  return {most_nodes,
          fmt::format("MmaShape<{}, {}, {}, {}, {}, {}, {}, {}>", Name(product.numbers), unit_tiles,
                      of_warp, node_tiles, unit_warps, group_warps, node_warps, StagesOf(bytes)),
          32 * warps * node_warps,
          nodes,
          units,
          StagesOf(bytes),
          bytes};
}

MmaBlock OfWarpgroups(int most_nodes, int groups, int nodes, int packs) {
  const WgmmaPacks of = WgmmaPacks::For(groups);
  const int warpgroups = packs * of.tiles / 4;
  const int bytes = nodes * kMmaPieceBytes + packs * static_cast<int>(of.bytes());
  return {most_nodes,
          fmt::format("WgmmaShape<{}, {}, {}, {}, {}>", nodes, warpgroups, of.unit_tiles, groups,
                      StagesOf(bytes)),
          128 * warpgroups,
          nodes,
          packs * of.unit_tiles * kMmaUnits,
          StagesOf(bytes),
          bytes};
}

}  // namespace

// Few nodes want many blocks, as the weights are all that is loaded; many want large ones, as what is loaded is used for more.
// Of bf16, for which launches each is the best was measured on an H200 (README.md); of fp32 it is derived: there are three times
// the instructions, so 64 nodes already want a block on every SM.
std::vector<MmaBlock> MmaBlocks(MmaNumbers numbers, int groups, int reads, bool wgmma) {
  const OfProduct product = {numbers, groups, reads};
  if (numbers == MmaNumbers::kFp32) {
    std::vector<MmaBlock> blocks = {
        OfWarps(product, 8, 1, 1, 4, 1), OfWarps(product, 16, 1, 2, 4, 1),
        OfWarps(product, 64, 1, 2, 4, 2), OfWarps(product, 128, 1, 2, 4, 4)};
    // Sums and parts of rows are registers: of two groups a warp one tile of units is what there is room for.
    if (std::has_single_bit(static_cast<unsigned>(groups)) && groups <= 4) {
      blocks.push_back(OfWarps(product, 512, 2, 2, 4, 4));
    }
    return blocks;
  }
  if (!wgmma) {
    return {OfWarps(product, 8, 1, 1, 4, 1), OfWarps(product, 16, 1, 2, 4, 1),
            OfWarps(product, 32, 1, 2, 2, 2), OfWarps(product, 128, 1, 2, 2, 4),
            OfWarps(product, 512, 2, 4, 2, 4)};
  }
  const int packs =
      WgmmaPacks::For(groups).tiles == 4 ? 2 : 1;  // of large blocks: threads have registers
  return {OfWarpgroups(8, groups, 8, 1), OfWarpgroups(16, groups, 16, 1),
          OfWarpgroups(128, groups, 32, 1), OfWarpgroups(256, groups, 64, packs),
          OfWarpgroups(512, groups, 128, packs)};
}

}  // namespace cellbatch
