// A product of packed weights with gathered rows, both bf16, on Hopper GPUs: what mma_product.cuh is elsewhere, with instructions
// that read shared memory themselves (wgmma.cuh). A block takes kWarpgroups tiles of 64 rows of weights by kNodes nodes:
//
//   weights, 64 rows a warpgroup:     tiles of 16 rows, one a warp: units 0 .. 15 of group 0, of group 1, .. , then units 16 .. 31
//                                     (kUnitTiles times kGroups tiles a pack, rounded up to whole warpgroups with zeros)
//   lists | given | barriers | stage 0 | ..      as there; a stage: rows of nodes, then weights, both as instructions read them
//
// Warpgroups multiply; more warps load, and know nothing of sums. Barriers of each place of the ring say when it is full, and when it
// is free again. Pieces are multiplied while the next ones are waited for, so their places are free when those have begun.
//
// kCluster blocks, of the same units and nodes one behind the other, share the weights: of a piece each brings a part to all of them,
// so what comes from L2 comes once.
//
//   block 0   rows 0 .. 127      weights, 1st half --+--> shared memory of blocks 0 and 1
//   block 1   rows 128 .. 255             2nd half --+
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_WGMMA_PRODUCT_CUH_
#define CELLBATCH_CELLS_KERNELS_CUDA_WGMMA_PRODUCT_CUH_

#include "cells/kernels/cuda/cluster.cuh"
#include "cells/kernels/cuda/intrinsics.cuh"
#include "cells/kernels/cuda/mma_product.cuh"
#include "cells/kernels/cuda/mma_tile.h"
#include "cells/kernels/cuda/wgmma.cuh"

namespace cellbatch::cuda_kernels {

// Of a block: nodes, tiles of 64 rows; of a pack: tiles of 16 units, of how many groups; pieces in shared memory; blocks of a cluster;
// threads that load; pieces that are multiplied at once.
template <int kNodesOf, int kWarpgroupsOf, int kUnitTilesOf, int kGroupsOf, int kStagesOf,
          int kClusterOf, int kLoadersOf, int kAtOnceOf>
struct WgmmaShape {
  static constexpr int kNodes = kNodesOf, kWarpgroups = kWarpgroupsOf, kStages = kStagesOf;
  static constexpr int kCluster = kClusterOf;
  static constexpr int kConsumers = 128 * kWarpgroups, kLoaders = kLoadersOf;
  static constexpr int kAtOnce = kAtOnceOf;
  static constexpr int kThreads = kConsumers + kLoaders;
  // Of those who load; negative: one who multiplies.
  __device__ __forceinline__ static int Loader() {
    return static_cast<int>(threadIdx.x) - kConsumers;
  }
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

// As MmaRows, of those who load: 8 threads have a whole row.
template <typename Shape>
struct WgmmaRows : MmaRowParts<Shape, 8> {
  using Base = MmaRowParts<Shape, 8>;
  using Base::kParts, Base::kRowsEach, Base::left, Base::RowOf, Base::rows;

  // Tells at `full` when they are there. What is not aligned is stored, not copied, of which ArriveWhenCopied says nothing.
  template <bool kWhole, bool kAligned>
  __device__ __forceinline__ void Load(char* to, int nodes, Barrier* full) {
    const int part = Shape::Loader() % kParts;
    const int there = kWhole ? 8 : max(0, min(8, left - part * 8));
#pragma unroll
    for (int j = 0; j < kRowsEach; ++j) {
      if (!Base::IsRow(j)) continue;
      CopyElements<kAligned>(to + WgmmaPartAt(RowOf(j), part), rows[j],
                             RowOf(j) < nodes ? there : 0);
    }
    // Not each behind its copy, which is long in reading its address.
#pragma unroll
    for (int j = 0; j < kRowsEach; ++j) rows[j] += kWgmmaDepth;
    left -= kWgmmaDepth;
    if (kAligned) {
      ArriveWhenCopied(full);
    } else {
      Arrive(full);
    }
  }
};

// visit(group, node, unit, sum) for each sum of this lane, if it multiplies; node and unit of the block.
template <typename Shape, typename Visit>
__device__ __forceinline__ void ForEachWgmmaSum(typename Shape::Sums& sums, const Visit& visit) {
  if (Shape::Loader() >= 0) return;
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

// Which places of the ring are full and which are free, of each in turn.
template <typename Shape>
struct WgmmaPlaces {
  static constexpr int kStages = Shape::kStages, kCluster = Shape::kCluster;

  Barrier* const full;  // by place: rows, of each thread that loads, and weights are there
  Barrier* const free;  // by place: each warp that multiplies, of all blocks of the cluster, is done with it
  int place = 0;
  unsigned round = 0;  // parity

  __device__ __forceinline__ explicit WgmmaPlaces(char* at)
      : full(reinterpret_cast<Barrier*>(at)), free(full + kStages) {
    if (threadIdx.x < kStages) {
      InitBarrier(full + threadIdx.x, Shape::kLoaders + 1);
      InitBarrier(free + threadIdx.x, kCluster * Shape::kConsumers / 32);
    }
    ShowBarriers<kCluster>();
  }
  __device__ __forceinline__ void WaitUntilFull() const { WaitFor(full + place, round); }
  // In the first round they are.
  __device__ __forceinline__ void WaitUntilFree() const { WaitFor(free + place, round ^ 1); }
  __device__ __forceinline__ void Pass() {
    if (++place < kStages) return;
    place = 0;
    round ^= 1;
  }
};

// The weights of a segment's pieces, of the block's packs: this block's part of them. One thread's.
template <typename Shape>
struct WgmmaWeights {
  static constexpr int kBytes = Shape::kPackBytes;
  static constexpr int kPart = Shape::kPacks * kBytes / Shape::kCluster;
  static constexpr int kOfPack = kPart < kBytes ? kPart : kBytes;  // one copy
  static_assert(kPart % kOfPack == 0 && kBytes % kOfPack == 0, "copies have one pack each");

  const char* weights;  // the next piece's, of pack 0
  int pack_bytes;       // from pack to pack

  __device__ __forceinline__ void Begin(const float* packed, int bytes) {
    weights = reinterpret_cast<const char*>(packed);
    pack_bytes = bytes;
  }
  // `packs`: of all units; beyond the last one another's weights, for sums that nobody takes.
  __device__ __forceinline__ void Load(char* to, int packs, Barrier* full) {
    ArriveAndExpect(full, Shape::kPacks * kBytes);
#pragma unroll
    for (int i = 0; i < kPart / kOfPack; ++i) {
      const int at = ClusterPart<Shape::kCluster>() * kPart + i * kOfPack;
      const int pack = min(static_cast<int>(blockIdx.x) * Shape::kPacks + at / kBytes, packs - 1);
      BulkCopy<Shape::kCluster>(to + Shape::kRowBytes + at,
                                weights + static_cast<long long>(pack) * pack_bytes + at % kBytes,
                                kOfPack, full);
    }
    weights += kBytes;
  }
};

// As many pieces' weights as there is room for are on their way before rows are known.
template <typename Shape, int kStageBytes, typename Weights>
__device__ __forceinline__ void FillWithWgmmaWeights(const WgmmaPlaces<Shape>& places, char* stages,
                                                     int total, Weights& weights) {
  if (Shape::Loader() != 0) return;
#pragma unroll 1
  for (int p = 0; p < min(Shape::kStages, total); ++p) {
    weights(p, stages + p * kStageBytes, places.full + p);
  }
}
// Of a block that has no nodes after all: until they have come.
template <typename Shape>
__device__ __forceinline__ void WaitForWgmmaWeights(const WgmmaPlaces<Shape>& places, int total) {
  if (Shape::Loader() < 0) return;
  for (int p = 0; p < min(Shape::kStages, total); ++p) {
    Arrive(places.full + p);
    WaitFor(places.full + p, 0);
  }
}

// What the others do meanwhile: rows, and after the first round weights, into places that are free. Nothing is waited for but that: a
// fence here would wait for all that is on its way.
template <typename Shape, int kStageBytes, typename Rows, typename Weights>
__device__ __forceinline__ void LoadWgmmaPieces(WgmmaPlaces<Shape> places, char* stages, int total,
                                                Rows& rows, Weights& weights) {
#pragma unroll 1
  for (int p = 0; p < total; ++p) {
    char* const stage = stages + places.place * kStageBytes;
    places.WaitUntilFree();
    if (p >= Shape::kStages && Shape::Loader() == 0) {
      weights(p, stage, places.full + places.place);
    }
    rows(p, stage, places.full + places.place);
    places.Pass();
  }
}

// As MmaRing: what multiplies.
template <typename Shape, int kStageBytes>
struct WgmmaRing {
  static constexpr int kStages = Shape::kStages;

  const char* const stages;
  const int total;
  WgmmaPlaces<Shape> places;
  int at = 0;        // the piece that is next
  int released = 0;  // the first whose place was not told to be free, and where it lies
  WgmmaPlaces<Shape> multiplied = places;

  // The next `pieces` of them, which the groups kOf read, all of them or not: the weights of the others are zeros, of which what
  // is no number would make more. Sums are there after End.
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
  // Pieces before `end` are multiplied: whoever fills a place again waits for all warps of all blocks.
  __device__ __forceinline__ void Release(int end) {
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (; released < end; ++released) {
      if (released + kStages < total && lane < Shape::kCluster) {
        ArriveAt(places.free + multiplied.place, lane);
      }
      multiplied.Pass();
    }
  }
  template <int kCount>
  __device__ __forceinline__ void MultiplySome(typename Shape::Sums& sums) {
    const int of_warpgroup = Shape::kRowBytes + threadIdx.x / 128 * (64 * kMmaPieceBytes);
    const char* stage[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      stage[i] = stages + places.place * kStageBytes;
      places.WaitUntilFull();
      places.Pass();
    }
    ShowToWgmma();
    WgmmaBegin();
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        WgmmaStep<Shape::kNodes>(sums, stage[i] + of_warpgroup, stage[i], step);
      }
    }
    WgmmaClose();
    WgmmaWaitForAllBut<1>();
    Release(at);
    at += kCount;
  }
  __device__ __forceinline__ void Multiply(typename Shape::Sums& sums, int pieces) {
    const int end = at + pieces;
#pragma unroll 1
    while (at + Shape::kAtOnce <= end) MultiplySome<Shape::kAtOnce>(sums);
#pragma unroll 1
    while (at < end) MultiplySome<1>(sums);
  }
};

}  // namespace cellbatch::cuda_kernels

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_WGMMA_PRODUCT_CUH_
