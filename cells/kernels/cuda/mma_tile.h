// What packs weights for tensor cores and what reads them agree on this. Read by three compilers (kernel_abi.h): no header is
// included.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_MMA_TILE_H_
#define CELLBATCH_CELLS_KERNELS_CUDA_MMA_TILE_H_

namespace cellbatch::cuda_kernels {

// What is multiplied. Either lies in memory as elements of so many bytes, rows as well as weights.
enum class MmaNumbers : unsigned char {
  kBf16,  // of two bytes
  kFp32,  // of four, each in two parts of tf32
  kTf32,  // of four, rounded to tf32: weights where they lie, rows when they are multiplied
};
#ifdef __CUDACC__
__device__
#endif
    constexpr int
    MmaElementBytes(MmaNumbers numbers) {
  return numbers == MmaNumbers::kBf16 ? 2 : 4;
}

inline constexpr int kMmaUnits = 16;       // of one instruction
inline constexpr int kMmaNodes = 8;        // likewise
inline constexpr int kMmaChunkBytes = 64;  // of a row, or of one unit's weights: what a lane takes
                                           // 16 of; two instructions
inline constexpr int kMmaPieceChunks = 2;
inline constexpr int kMmaPieceBytes = kMmaPieceChunks * kMmaChunkBytes;  // what is loaded at once
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
