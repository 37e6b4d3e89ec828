#include "cells/kernels/cuda/mma_blocks.h"

#include <algorithm>
#include <bit>

#include "cells/kernels/cuda/mma_values.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

using cuda_kernels::kMmaChunkBytes;
using cuda_kernels::kMmaNodes;
using cuda_kernels::kMmaPieceChunks;
using cuda_kernels::kMmaPieceDepth;
using cuda_kernels::kMmaUnits;

constexpr int kRingBytes = 180 << 10;  // of shared memory, at most

// As many stages as there is room for, up to eight.
int StagesOf(int stage_bytes) { return std::min(8, kRingBytes / stage_bytes); }

// Tiles of units and nodes of a warp; warps along units and groups (groups first), and along nodes.
MmaBlock OfWarps(int most_nodes, int groups, int reads, int unit_tiles, int node_tiles, int warps,
                 int node_warps) {
  const int group_warps =
      std::min(warps, static_cast<int>(std::bit_floor(static_cast<unsigned>(groups))));
  const int of_warp = (groups + group_warps - 1) / group_warps, unit_warps = warps / group_warps;
  const int nodes = kMmaNodes * node_tiles * node_warps;
  const int units = kMmaUnits * unit_tiles * unit_warps;
  const int bytes = kMmaPieceChunks * kMmaChunkBytes * (nodes + units * reads);
  return {most_nodes,
          fmt::format("MmaShape<{}, {}, {}, {}, {}, {}, {}>", unit_tiles, of_warp, node_tiles,
                      unit_warps, group_warps, node_warps, StagesOf(bytes)),
          32 * warps * node_warps,
          nodes,
          units,
          StagesOf(bytes),
          bytes};
}

MmaBlock OfWarpgroups(int most_nodes, int groups, int nodes, int packs) {
  const WgmmaPacks of = WgmmaPacks::For(groups);
  const int warpgroups = packs * of.tiles / 4;
  const int bytes = nodes * kMmaPieceDepth * 2 + packs * static_cast<int>(of.bytes());
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
// For which launches each is the best was measured on an H200 (README.md).
std::vector<MmaBlock> MmaBlocks(int groups, int reads, bool wgmma) {
  if (!wgmma) {
    return {OfWarps(8, groups, reads, 1, 1, 4, 1), OfWarps(16, groups, reads, 1, 2, 4, 1),
            OfWarps(32, groups, reads, 1, 2, 2, 2), OfWarps(128, groups, reads, 1, 2, 2, 4),
            OfWarps(512, groups, reads, 2, 4, 2, 4)};
  }
  const int packs =
      WgmmaPacks::For(groups).tiles == 4 ? 2 : 1;  // of large blocks: threads have registers
  return {OfWarpgroups(8, groups, 8, 1), OfWarpgroups(16, groups, 16, 1),
          OfWarpgroups(128, groups, 32, 1), OfWarpgroups(256, groups, 64, packs),
          OfWarpgroups(512, groups, 128, packs)};
}

}  // namespace cellbatch
