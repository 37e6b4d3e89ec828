#include "cells/kernels/cuda/mma_blocks.h"

#include <algorithm>
#include <bit>

#include "cells/check.h"
#include "cells/kernels/cuda/mma_values.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

using cuda_kernels::kMmaNodes;
using cuda_kernels::kMmaPieceBytes;
using cuda_kernels::kMmaUnits;
using cuda_kernels::MmaNumbers;

constexpr int kRingBytes = 180 << 10;  // of shared memory, at most

// As many stages as there is room for, up to eight; `beside`: bytes of the block that are not the ring's.
int StagesOf(int stage_bytes, int beside, int most_shared) {
  return std::min(8, std::min(kRingBytes, std::max(0, most_shared - beside)) / stage_bytes);
}

const char* Name(MmaNumbers numbers) {
  switch (numbers) {
    case MmaNumbers::kBf16:
      return "MmaNumbers::kBf16";
    case MmaNumbers::kFp32:
      return "MmaNumbers::kFp32";
    case MmaNumbers::kTf32:
      return "MmaNumbers::kTf32";
  }
  NoSuchEnumerator();
}

// Tiles of units and nodes of a warp; warps along units and groups (groups first), and along nodes.
MmaBlock OfWarps(const MmaProduct& product, int most_shared, int most_nodes, int unit_tiles,
                 int node_tiles, int warps, int node_warps) {
  const int groups = product.groups;
  const int group_warps =
      std::min(warps, static_cast<int>(std::bit_floor(static_cast<unsigned>(groups))));
  const int of_warp = (groups + group_warps - 1) / group_warps, unit_warps = warps / group_warps;
  const int nodes = kMmaNodes * node_tiles * node_warps;
  const int units = kMmaUnits * unit_tiles * unit_warps;
  const int bytes = kMmaPieceBytes * (nodes + units * product.reads);
  const int stages =
      StagesOf(bytes, product.ListBytes(nodes) + product.GivenBytes(nodes, units), most_shared);
  return {most_nodes,
          fmt::format("MmaShape<{}, {}, {}, {}, {}, {}, {}, {}>", Name(product.numbers), unit_tiles,
                      of_warp, node_tiles, unit_warps, group_warps, node_warps, stages),
          32 * warps * node_warps,
          nodes,
          units,
          stages,
          bytes};
}

// With as many stages as there is room for, up to twelve: from 32 nodes on that is more than half of an SM's shared memory, so that
// blocks of one launch never double up on an SM while others have none.
MmaBlock OfWarpgroups(const MmaProduct& product, int most_shared, int most_nodes, int nodes,
                      int packs, int cluster) {
  const WgmmaPacks of = WgmmaPacks::For(product.groups);
  const int warpgroups = packs * of.tiles / 4, units = packs * of.unit_tiles * kMmaUnits;
  const int bytes = nodes * kMmaPieceBytes + packs * static_cast<int>(of.bytes());
  const int room =
      most_shared - product.ListBytes(nodes) - product.GivenBytes(nodes, units) - kWgmmaRingAligned;
  const int stages = std::min(12, room / (bytes + kWgmmaPlaceBytes));
  // Two threads a row, but where sums of groups that do not read all are kept twice: then registers go to those who multiply.
  const int loaders = nodes >= 128 && product.whole ? 256 : 128;
  const int at_once = nodes <= 16 && stages == 12 ? 4 : stages >= 7 ? 2 : 1;
  return {most_nodes,
          fmt::format("WgmmaShape<{}, {}, {}, {}, {}, {}, {}, {}>", nodes, warpgroups,
                      of.unit_tiles, product.groups, stages, cluster, loaders, at_once),
          128 * warpgroups + loaders,
          nodes,
          units,
          stages,
          bytes,
          cluster};
}

}  // namespace

// Few nodes want many blocks, as the weights are all that is loaded; many want large ones, as what is loaded is used for more. Of bf16,
// for which launches each is the best was measured on an H200 (README.md), as was that clusters of four do not all fit at once; of
// fp32 it is derived: there are three times the instructions, so 64 nodes already want a block on every SM. Tf32 takes those of fp32,
// whose rows are as long; which are the best for it nobody has measured.
std::vector<MmaBlock> MmaBlocks(const MmaProduct& product, bool wgmma, int most_shared) {
  const auto warps = [&](auto... shape) { return OfWarps(product, most_shared, shape...); };
  const auto warpgroups = [&](auto... shape) {
    return OfWarpgroups(product, most_shared, shape...);
  };
  const int groups = product.groups;
  if (product.numbers != MmaNumbers::kBf16) {
    std::vector<MmaBlock> blocks = {warps(8, 1, 1, 4, 1), warps(16, 1, 2, 4, 1),
                                    warps(64, 1, 2, 4, 2), warps(128, 1, 2, 4, 4)};
    // Sums and parts of rows are registers: of two groups a warp one tile of units is what there is room for.
    if (std::has_single_bit(static_cast<unsigned>(groups)) && groups <= 4) {
      blocks.push_back(warps(512, 2, 2, 4, 4));
    }
    return blocks;
  }
  if (!wgmma) {
    return {warps(8, 1, 1, 4, 1), warps(16, 1, 2, 4, 1), warps(32, 1, 2, 2, 2),
            warps(128, 1, 2, 2, 4), warps(512, 2, 4, 2, 4)};
  }
  std::vector<MmaBlock> blocks = {warpgroups(8, 8, 1, 1), warpgroups(16, 16, 1, 1),
                                  warpgroups(32, 32, 1, 1), warpgroups(64, 32, 1, 2)};
  const bool small = WgmmaPacks::For(groups).tiles == 4;  // packs: threads have registers for two
  if (small) blocks.push_back(warpgroups(128, 64, 1, 2));
  blocks.push_back(warpgroups(256, 64, small ? 2 : 1, 2));
  blocks.push_back(warpgroups(512, 128, small ? 2 : 1, 2));
  return blocks;
}

}  // namespace cellbatch
