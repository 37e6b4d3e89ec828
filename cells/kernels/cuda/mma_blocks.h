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
};

// Of a product of so many groups, `reads` of which read a segment at most. `wgmma`: by Hopper's instructions, of bf16.
std::vector<MmaBlock> MmaBlocks(cuda_kernels::MmaNumbers numbers, int groups, int reads,
                                bool wgmma);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_MMA_BLOCKS_H_
