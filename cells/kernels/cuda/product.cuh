// A product of gathered rows with packed weights: the part of a generated kernel that is the same for all of them. A block
// takes kTileNodes nodes by kTileUnits units of every group; each of its threads has one unit and kNodesEach nodes, and keeps
// their sums in registers until the tail has used them.
//
//            k0 .. k0+31                         lane: unit
//   node 0   x x x x ..     (rows, gathered      +---------+
//   node 1   x x x x ..      by row number       | w w w w | k0       weights of this block's units,
//   ..                       while loading)      | w w w w | k0+1     packed as they are read
//                                                +---------+
//   warp w: nodes w, w+4, w+8, w+12              ring of kStages such pieces, filled by cp.async
//
// Sums run over k in order, whatever the grid and whoever shares the block: bits depend on the node's inputs only.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_PRODUCT_CUH_
#define CELLBATCH_CELLS_KERNELS_CUDA_PRODUCT_CUH_

#include "cells/kernels/cuda/intrinsics.cuh"
#include "cells/kernels/cuda/product_tile.h"
#include "cells/kernels/cuda/rows.cuh"

namespace cellbatch::cuda_kernels {

inline constexpr int kWarps = kProductThreads / 32;
inline constexpr int kNodesEach = kTileNodes / kWarps;

// Floats of one piece: the rows' part, then the weights'.
template <int kReads>
__device__ constexpr int PieceFloats() {
  return kTileNodes * kPieceDepth + kPieceDepth * kTileUnits * kReads;
}

// Starts loading piece `piece` of a segment: of this warp's rows, and a share of the weights.
template <int kReads>
__device__ __forceinline__ void LoadPiece(float* to, const float* const (&rows)[kNodesEach],
                                          int depth, int piece, const float* weights) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int k = piece * kPieceDepth + lane;
#pragma unroll
  for (int j = 0; j < kNodesEach; ++j) {
    float* const at = to + (warp + kWarps * j) * kPieceDepth + lane;
    if (k < depth) {
      CopyAsync4(at, rows[j] + k);
    } else {
      *at = 0.0f;
    }
  }
  float* const weights_to = to + kTileNodes * kPieceDepth;
  const float* const from =
      weights + static_cast<long long>(piece) * kPieceDepth * kTileUnits * kReads;
  for (int i = threadIdx.x * 4; i < kPieceDepth * kTileUnits * kReads; i += kProductThreads * 4) {
    CopyAsync16(weights_to + i, from + i);
  }
}

// sums[j][group] += row j . weights, for the groups that read this segment. `weights`: this block's (PackSegment). Every
// thread of the block comes here.
template <int... kOf, int kGroups>
__device__ __forceinline__ void AddSegment(float (&sums)[kNodesEach][kGroups],
                                           const float* const (&rows)[kNodesEach], int depth,
                                           const float* weights) {
  constexpr int kReads = sizeof...(kOf);
  constexpr int of[] = {kOf...};
  float* const shared = reinterpret_cast<float*>(cellbatch_shared);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int pieces = (depth + kPieceDepth - 1) / kPieceDepth;
  __syncthreads();  // whoever read the ring before is done with it
  for (int p = 0; p < kStages - 1; ++p) {
    if (p < pieces) LoadPiece<kReads>(shared + p * PieceFloats<kReads>(), rows, depth, p, weights);
    CloseGroup();
  }
  for (int p = 0; p < pieces; ++p) {
    WaitForAllBut<kStages - 2>();
    __syncthreads();  // all of piece p is there, and nobody reads the place of piece p - 1 any more
    const int next = p + kStages - 1;
    if (next < pieces) {
      LoadPiece<kReads>(shared + next % kStages * PieceFloats<kReads>(), rows, depth, next,
                        weights);
    }
    CloseGroup();
    const float* const x = shared + p % kStages * PieceFloats<kReads>();
    const float* const w = x + kTileNodes * kPieceDepth + lane * kReads;
#pragma unroll 8
    for (int k = 0; k < kPieceDepth; ++k) {
      float weight[kReads];
#pragma unroll
      for (int g = 0; g < kReads; ++g) weight[g] = w[k * kTileUnits * kReads + g];
#pragma unroll
      for (int j = 0; j < kNodesEach; ++j) {
        const float value = x[(warp + kWarps * j) * kPieceDepth + k];
#pragma unroll
        for (int g = 0; g < kReads; ++g) sums[j][of[g]] = fmaf(value, weight[g], sums[j][of[g]]);
      }
    }
  }
}

}  // namespace cellbatch::cuda_kernels

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_PRODUCT_CUH_
