// A product of packed weights with gathered rows, both bf16, on Hopper GPUs: what mma_product.cuh is elsewhere, with instructions
// that read shared memory themselves (wgmma.cuh). A block takes kWarpgroups tiles of 64 rows of weights by kNodes nodes:
//
//   weights, 64 rows a warpgroup:     tiles of 16 rows, one a warp: units 0 .. 15 of group 0, of group 1, .. , then units 16 .. 31
//                                     (kUnitTiles times kGroups tiles a pack, rounded up to whole warpgroups with zeros)
//   lists | given | stage 0 | ..      as there; a stage: rows of nodes, then weights, both as instructions read them
//
// A piece is multiplied while the next one is waited for, so its place is free two pieces later.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_WGMMA_PRODUCT_CUH_
#define CELLBATCH_CELLS_KERNELS_CUDA_WGMMA_PRODUCT_CUH_

#include "cells/kernels/cuda/intrinsics.cuh"
#include "cells/kernels/cuda/mma_product.cuh"
#include "cells/kernels/cuda/mma_tile.h"
#include "cells/kernels/cuda/wgmma.cuh"

namespace cellbatch::cuda_kernels {

// Of a block: nodes, tiles of 64 rows; of a pack: tiles of 16 units, of how many groups; pieces in shared memory.
template <int kNodesOf, int kWarpgroupsOf, int kUnitTilesOf, int kGroupsOf, int kStagesOf>
struct WgmmaShape {
  static constexpr int kNodes = kNodesOf, kWarpgroups = kWarpgroupsOf, kStages = kStagesOf;
  static constexpr int kThreads = 128 * kWarpgroups;
  static constexpr int kUnitTiles = kUnitTilesOf, kGroups = kGroupsOf;
  static constexpr int kPackTiles = (kUnitTiles * kGroups + 3) / 4 * 4;  // of 16 rows
  static constexpr int kPacks = 4 * kWarpgroups / kPackTiles;
  static constexpr int kUnits = kMmaUnits * kUnitTiles * kPacks;
  static constexpr int kRowBytes = kNodes * kMmaPieceBytes;                   // of a stage
  static constexpr int kPackBytes = kPackTiles * kMmaUnits * kMmaPieceBytes;  // likewise
  using Element = unsigned short;
  static constexpr int kOf16 = 8;  // elements of 16 bytes
  using Sums = float[kNodes / 2];
  static_assert(kPacks * kPackTiles == 4 * kWarpgroups, "whole packs");
};

// As MmaRows: 8 threads have a whole row.
template <typename Shape>
struct WgmmaRows : MmaRowParts<Shape, 8> {
  using Base = MmaRowParts<Shape, 8>;
  using Base::kParts, Base::kRowsEach, Base::left, Base::RowOf, Base::rows;

  template <bool kWhole, bool kAligned>
  __device__ __forceinline__ void Load(char* to, int nodes) {
    const int part = threadIdx.x % kParts;
    const int there = kWhole ? 8 : max(0, min(8, left - part * 8));
#pragma unroll
    for (int j = 0; j < kRowsEach; ++j) {
      if (RowOf(j) >= Shape::kNodes) continue;
      CopyElements<kAligned>(to + WgmmaPartAt(RowOf(j), part), rows[j],
                             RowOf(j) < nodes ? there : 0);
      rows[j] += kWgmmaDepth;
    }
    left -= kWgmmaDepth;
  }
};

// visit(group, node, unit, sum) for each sum of this lane; node and unit of the block.
template <typename Shape, typename Visit>
__device__ __forceinline__ void ForEachWgmmaSum(typename Shape::Sums& sums, const Visit& visit) {
  const int lane = threadIdx.x % 32, tile = threadIdx.x / 32;
  const int pack = tile / Shape::kPackTiles, in_pack = tile % Shape::kPackTiles;
  if (in_pack >= Shape::kUnitTiles * Shape::kGroups) return;
  const int unit =
      (pack * Shape::kUnitTiles + in_pack / Shape::kGroups) * kMmaUnits + lane / 4;
#pragma unroll
  for (int n = 0; n < Shape::kNodes / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      visit(in_pack % Shape::kGroups, n * 8 + lane % 4 * 2 + i % 2, unit + i / 2 * 8,
            sums[4 * n + i]);
    }
  }
}

// As MmaRing.
template <typename Shape, int kStageBytes, typename Rows, typename Weights>
struct WgmmaRing : MmaPieces<Shape::kStages, Shape::kStages - 2, kStageBytes, Rows, Weights> {
  static constexpr int kAhead = Shape::kStages - 2;

  // The next `pieces` of them, which the groups kOf read, all of them or not: the weights of the others are zeros, of which what
  // is no number would make more. Every thread of the block comes here. Sums are there after End.
  template <bool kAll, int... kOf>
  __device__ __forceinline__ void Add(typename Shape::Sums& sums, int pieces) {
    if (kAll) return Multiply(sums, pieces);
    const int group = threadIdx.x / 32 % Shape::kPackTiles % Shape::kGroups;
    typename Shape::Sums before;
    End();
    for (int i = 0; i < Shape::kNodes / 2; ++i) before[i] = sums[i];
    Multiply(sums, pieces);
    End();
    if (MmaReadOf<false, kOf...>(group) >= 0) return;
    for (int i = 0; i < Shape::kNodes / 2; ++i) sums[i] = before[i];
  }
  __device__ __forceinline__ void End() { WgmmaWaitForAllBut<0>(); }

 private:
  __device__ __forceinline__ void Multiply(typename Shape::Sums& sums, int pieces) {
    const int of_warpgroup = Shape::kRowBytes + threadIdx.x / 128 * (64 * kMmaPieceBytes);
#pragma unroll 1
    for (const int end = this->at + pieces; this->at < end; ++this->at) {
      WaitForAllBut<kAhead - 1>();
      ShowToWgmma();
      __syncthreads();  // all of this piece is there, and what was multiplied two pieces ago is done with
      this->LoadNext();
      const char* const stage = this->Stage();
      WgmmaBegin();
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        WgmmaStep<Shape::kNodes>(sums, stage + of_warpgroup, stage, step);
      }
      WgmmaClose();
      WgmmaWaitForAllBut<1>();
      this->Pass();
    }
  }
};

}  // namespace cellbatch::cuda_kernels

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_WGMMA_PRODUCT_CUH_
