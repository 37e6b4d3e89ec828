// What packs bf16 weights for tensor cores and what reads them agree on this. Read by three compilers (kernel_abi.h): no header
// is included.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_MMA_TILE_H_
#define CELLBATCH_CELLS_KERNELS_CUDA_MMA_TILE_H_

namespace cellbatch::cuda_kernels {

inline constexpr int kMmaUnits = 16;  // of one instruction
inline constexpr int kMmaNodes = 8;   // likewise
inline constexpr int kMmaChunk = 32;  // of a row: what a lane takes 16 bytes of; two instructions
inline constexpr int kMmaPieceDepth = 64;  // of a row: what is loaded at once
inline constexpr int kMmaPieceChunks = kMmaPieceDepth / kMmaChunk;
inline constexpr int kMmaChunkBytes = kMmaChunk * 2;  // of one node, or of one unit
inline constexpr int kMmaTileBytes =
    kMmaUnits * kMmaChunkBytes;  // weights of a chunk of one tile and group

// Floats from node to node where a block leaves its sums for the tail: units of all groups, and room against conflicts of banks.
#ifdef __CUDACC__
__device__
#endif
    constexpr int
    MmaSumsStride(int units, int groups) {
  return (units * groups + 31) / 32 * 32 + 4;
}

}  // namespace cellbatch::cuda_kernels

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_MMA_TILE_H_
