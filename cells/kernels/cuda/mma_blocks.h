// The blocks by which a product on tensor cores can be run: which there are, for which launches. Load time, pure.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_MMA_BLOCKS_H_
#define CELLBATCH_CELLS_KERNELS_CUDA_MMA_BLOCKS_H_

#include <string>
#include <vector>

#include "cells/kernels/cuda/mma_tile.h"

namespace cellbatch {

// As text names it and as launches need it.
struct MmaBlock {
  int most_nodes;    // of launches that it is the best for
  std::string type;  // MmaShape<..> or WgmmaShape<..>
  int threads, nodes, units, stages, stage_bytes;
  int cluster = 1;  // blocks, along nodes, that share weights
};

// What has to do with that of a product.
struct MmaProduct {
  cuda_kernels::MmaNumbers numbers;
  int groups;   // of sums
  int reads;    // of which read a segment at most
  bool whole;   // all read every segment
  int lists;    // of rows: inputs, and the output
  int columns;  // that the tail reads

  // Beside the ring.
  int ListBytes(int nodes) const { return lists * nodes * 4; }
  int GivenBytes(int nodes, int units) const { return columns * nodes * units * 4; }
};

inline constexpr int kWgmmaRingAligned = 1024;  // bytes: where the ring begins
inline constexpr int kWgmmaPlaceBytes = 16;     // two barriers

// `wgmma`: by Hopper's instructions, of bf16. `most_shared`: bytes that a block may have, which its stages are cut to.
std::vector<MmaBlock> MmaBlocks(const MmaProduct& product, bool wgmma, int most_shared);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_MMA_BLOCKS_H_
