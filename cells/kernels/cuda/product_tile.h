// The shape of a product's block: what packs weights and what reads them agree on it. Read by three compilers
// (kernel_abi.h): no header is included.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_PRODUCT_TILE_H_
#define CELLBATCH_CELLS_KERNELS_CUDA_PRODUCT_TILE_H_

namespace cellbatch::cuda_kernels {

inline constexpr int kTileNodes = 16;   // of a block
inline constexpr int kTileUnits = 32;   // likewise, of each group: one a lane
inline constexpr int kPieceDepth = 32;  // of a row: what is loaded at once
inline constexpr int kStages = 3;       // pieces in shared memory
inline constexpr int kProductThreads = 128;
inline constexpr int kRowThreads = 128;  // of kernels that take one node a block

}  // namespace cellbatch::cuda_kernels

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_PRODUCT_TILE_H_
