// A product of packed weights with gathered rows, both bf16, tf32 or fp32 (in parts, below), summed in fp32 by tensor cores. A block
// takes kUnits units of every group by kNodes nodes, a warp a part of the units, the groups and the nodes:
//
//                        nodes: 8 an instruction
//   weights, packed      +---------------+         lane 4 g + t: of the weights units g and g + 8, of the rows node g; of both
//   as lanes read them:  | 0 0 0 0 0 ..  |         16 bytes of a chunk of 64: from 16 t on. An instruction takes half of these
//   16 units an          | sums          |         of every t: which k it calls which does not matter, as both sides agree.
//   instruction          +---------------+
//
//   shared memory:  lists | given | stage 0 | stage 1 | ..     rows' numbers; what the tail reads; a ring of pieces of 128 bytes:
//                                                              [chunk][node] 64 bytes, [tile][chunk][group][step][lane] 16
//                   lists | given | sums                       when all is summed up
//
// A unit of a node has one order of sums whatever the block's shape: what it begins with, then instruction by instruction,
// segments as the program has them, k ascending. Bits depend on the node's inputs only.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_MMA_PRODUCT_CUH_
#define CELLBATCH_CELLS_KERNELS_CUDA_MMA_PRODUCT_CUH_

#include "cells/kernels/cuda/intrinsics.cuh"
#include "cells/kernels/cuda/kernel_abi.h"
#include "cells/kernels/cuda/mma_tile.h"
#include "cells/kernels/cuda/rows.cuh"

namespace cellbatch::cuda_kernels {

template <MmaNumbers kNumbers>
struct MmaElementOf {
  using Type = float;
};
template <>
struct MmaElementOf<MmaNumbers::kBf16> {
  using Type = unsigned short;
};

// Of a warp: tiles of 16 units, groups, tiles of 8 nodes. Of a block: warps along each; pieces in shared memory.
template <MmaNumbers kNumbersOf, int kUnitTilesOf, int kGroupsOf, int kNodeTilesOf,
          int kUnitWarpsOf, int kGroupWarpsOf, int kNodeWarpsOf, int kStagesOf>
struct MmaShape {
  static constexpr MmaNumbers kNumbers = kNumbersOf;
  using Element = typename MmaElementOf<kNumbers>::Type;
  static constexpr int kOf16 = 16 / MmaElementBytes(kNumbers);  // elements of 16 bytes
  static constexpr int kUnitTiles = kUnitTilesOf, kGroups = kGroupsOf, kNodeTiles = kNodeTilesOf;
  static constexpr int kUnitWarps = kUnitWarpsOf, kGroupWarps = kGroupWarpsOf;
  static constexpr int kNodeWarps = kNodeWarpsOf;
  static constexpr int kStages = kStagesOf;
  static constexpr int kThreads = 32 * kUnitWarps * kGroupWarps * kNodeWarps;
  static constexpr int kLoaders = kThreads;
  __device__ __forceinline__ static unsigned Loader() { return threadIdx.x; }
  static constexpr int kTiles = kUnitTiles * kUnitWarps;  // of units
  static constexpr int kUnits = kMmaUnits * kTiles;
  static constexpr int kNodes = kMmaNodes * kNodeTiles * kNodeWarps;
  static constexpr int kRowBytes = kMmaPieceChunks * kNodes * kMmaChunkBytes;  // of a stage
  using Sums = float[kUnitTiles][kGroups][kNodeTiles][4];
};

// A warp's place in its block.
template <typename Shape>
struct MmaWarp {
  int lane, tile, group, node;  // its first of each

  __device__ __forceinline__ MmaWarp() {
    const int warp = threadIdx.x / 32;
    lane = threadIdx.x % 32;
    node = warp % Shape::kNodeWarps * Shape::kNodeTiles * kMmaNodes;
    group = warp / Shape::kNodeWarps % Shape::kGroupWarps * Shape::kGroups;
    tile = warp / (Shape::kNodeWarps * Shape::kGroupWarps) * Shape::kUnitTiles;
  }
};

// The task as far as this block has to do with it: lists in shared memory, which reach to the block's last node. Named as in
// cuda_abi::TaskNow, so that places are written alike.
struct MmaNow {
  struct List {
    const int* rows;
  };
  List inputs[cuda_abi::kMostInputs];
  const int* output_rows;
};

// Starts copying the first `count` elements of 16 bytes; the others become zeros. bf16 that are not aligned to 16 bytes are there
// at once.
template <bool kAligned>
__device__ __forceinline__ void CopyElements(char* to, const unsigned short* from, int count) {
  if (kAligned) return CopyAsync16Of(to, from, count * 2);
  auto* const words = reinterpret_cast<unsigned*>(to);
  for (int i = 0; i < 8; i += 2) {
    const unsigned low = i < count ? from[i] : 0u, high = i + 1 < count ? from[i + 1] : 0u;
    words[i / 2] = low | high << 16;
  }
}
template <bool kAligned>
__device__ __forceinline__ void CopyElements(char* to, const float* from, int count) {
  if (kAligned) return CopyAsync16Of(to, from, count * 4);
  auto* const words = reinterpret_cast<float*>(to);
  for (int i = 0; i < 4; ++i) {
    if (i < count) {
      CopyAsync4(words + i, from + i);
    } else {
      words[i] = 0.0f;
    }
  }
}

// Where a thread stands in the rows that it loads, of one segment after the other: kParts threads share a row, 16 bytes each.
template <typename Shape, int kPartsOf>
struct MmaRowParts {
  static constexpr int kParts = kPartsOf;
  static constexpr int kRowsAtOnce = Shape::kLoaders / kParts;
  static constexpr int kRowsEach = (Shape::kNodes + kRowsAtOnce - 1) / kRowsAtOnce;

  const typename Shape::Element* rows[kRowsEach];  // this thread's parts of the next piece
  int left;                                        // elements of the segment

  __device__ __forceinline__ static int RowOf(int j) {
    return Shape::Loader() / kParts + j * kRowsAtOnce;
  }

  __device__ __forceinline__ static bool IsRow(int j) {
    return Shape::kNodes % kRowsAtOnce == 0 || RowOf(j) < Shape::kNodes;
  }

  // row(n): of node n of the block.
  template <typename RowOfNode>
  __device__ __forceinline__ void Begin(const RowOfNode& row, int depth) {
    left = depth;
#pragma unroll
    for (int j = 0; j < kRowsEach; ++j) {
      if (IsRow(j)) rows[j] = row(RowOf(j)) + Shape::Loader() % kParts * Shape::kOf16;
    }
  }
};

// Loads the rows' part of pieces: every thread the same part of each chunk.
template <typename Shape>
struct MmaRows : MmaRowParts<Shape, kMmaChunkBytes / 16> {
  using Base = MmaRowParts<Shape, kMmaChunkBytes / 16>;
  using Base::kParts, Base::kRowsEach, Base::left, Base::RowOf, Base::rows;

  // Starts loading the next piece, of the block's first `nodes`; the others are zeros. kWhole: the segment has whole pieces.
  // kAligned: its rows begin at multiples of 16 bytes.
  template <bool kWhole, bool kAligned>
  __device__ __forceinline__ void Load(char* to, int nodes) {
    constexpr int kOf16 = Shape::kOf16, kChunk = kParts * kOf16;
    const int part = threadIdx.x % kParts;
#pragma unroll
    for (int j = 0; j < kRowsEach; ++j) {
      if (!Base::IsRow(j)) continue;
#pragma unroll
      for (int c = 0; c < kMmaPieceChunks; ++c) {
        char* const at = to + (c * Shape::kNodes + RowOf(j)) * kMmaChunkBytes + part * 16;
        const int there = kWhole ? kOf16 : max(0, min(kOf16, left - c * kChunk - part * kOf16));
        CopyElements<kAligned>(at, rows[j] + c * kChunk, RowOf(j) < nodes ? there : 0);
      }
      rows[j] += kMmaPieceChunks * kChunk;
    }
    left -= kMmaPieceChunks * kChunk;
  }
};

// Likewise the weights' part, behind the rows': of its tiles, of which a piece has kBytes each. They depend
// on nothing that a task brings.
template <typename Shape, int kBytes>
struct MmaWeights {
  static constexpr int kTiles = Shape::kTiles;

  const char* weights;  // this thread's part of the next piece, of the block's first tile
  int tile_bytes;       // from tile to tile

  // `packed`: of all tiles, `bytes` each.
  __device__ __forceinline__ void Begin(const float* packed, int bytes) {
    tile_bytes = bytes;
    weights = reinterpret_cast<const char*>(packed) +
              static_cast<long long>(blockIdx.x * kTiles) * bytes + threadIdx.x * 16;
  }

  // `tiles`: of all units; beyond the last one another's weights, for sums that nobody takes.
  __device__ __forceinline__ void Load(char* to, int tiles) {
    constexpr int kAtOnce = Shape::kThreads * 16;
    const int last = tiles - 1 - static_cast<int>(blockIdx.x) * kTiles;
#pragma unroll
    for (int at = 0; at < kTiles * kBytes; at += kAtOnce) {
      const int byte = at + (kBytes % kAtOnce == 0 ? 0 : static_cast<int>(threadIdx.x) * 16);
      if (byte >= kTiles * kBytes) continue;
      const int tile = byte / kBytes;
      CopyAsync16(to + Shape::kRowBytes + at + threadIdx.x * 16,
                  weights + (at - tile * kBytes) + min(tile, last) * static_cast<long long>(tile_bytes));
    }
    weights += kBytes;
  }
};

// Which of the groups kOf `group` is. Where they are all there are (kAll) of any number one: what is beyond them has sums that
// nobody takes. Else -1: none.
template <bool kAll, int... kOf>
__device__ __forceinline__ int MmaReadOf(int group) {
  constexpr int kReads = sizeof...(kOf);
  if (kAll) return min(group, kReads - 1);
  constexpr int of[] = {kOf...};
  int read = -1;
#pragma unroll
  for (int r = 0; r < kReads; ++r) read = of[r] == group ? r : read;
  return read;
}

// What a lane multiplies of a piece that kReads groups read: 16 bytes at a time.
template <typename Shape, int kReads>
struct MmaOperands {
  const char *rows, *weights;

  __device__ __forceinline__ MmaOperands(const MmaWarp<Shape>& warp, const char* stage)
      : rows(stage + warp.node * kMmaChunkBytes + warp.lane * 16),
        weights(stage + Shape::kRowBytes + warp.lane * 16) {}
  __device__ __forceinline__ uint4 Row(int chunk, int node_tile) const {
    const int at = (chunk * Shape::kNodes + node_tile * kMmaNodes) * kMmaChunkBytes;
    return *reinterpret_cast<const uint4*>(rows + at);
  }
  __device__ __forceinline__ uint4 Weights(int unit_tile, int chunk, int read, int half) const {
    const int tile = (unit_tile * kMmaPieceChunks + chunk) * kReads + read;
    return *reinterpret_cast<const uint4*>(weights + tile * kMmaTileBytes +
                                           half * (kMmaTileBytes / 2));
  }
};

// Of an fp32 of a row the tf32 nearest to it, ties away from zero; of a denormal zero, and of NaN NaN. (As
// `cvt.rna` rounds.)
__device__ __forceinline__ unsigned Tf32Of(unsigned x) {
  const unsigned flushed = Flushed(x), nearest = (flushed + 0x1000u) & 0xffffe000u;
  return (flushed & 0x7fffffffu) > 0x7f800000u ? flushed : nearest;
}

// As what is multiplied has it, 16 bytes of a row; and one instruction on half of them.
template <MmaNumbers kNumbers>
__device__ __forceinline__ uint4 MmaRowOf(const uint4& x) {
  if constexpr (kNumbers == MmaNumbers::kTf32) {
    return {Tf32Of(x.x), Tf32Of(x.y), Tf32Of(x.z), Tf32Of(x.w)};
  } else {
    return x;
  }
}
template <MmaNumbers kNumbers>
__device__ __forceinline__ void Mma(float (&sums)[4], const uint4& weights, unsigned b0,
                                    unsigned b1) {
  if constexpr (kNumbers == MmaNumbers::kTf32) {
    MmaTf32(sums, weights, b0, b1);
  } else {
    MmaBf16(sums, weights, b0, b1);
  }
}

// sums += weights . rows of the piece at `stage`, for this warp's groups among those that read it.
template <typename Shape, bool kAll, int... kOf>
__device__ __forceinline__ void MultiplyMmaPiece(typename Shape::Sums& sums, const char* stage) {
  const MmaWarp<Shape> warp;
  const MmaOperands<Shape, sizeof...(kOf)> operands(warp, stage);
#pragma unroll
  for (int c = 0; c < kMmaPieceChunks; ++c) {
    uint4 row[Shape::kNodeTiles];
#pragma unroll
    for (int n = 0; n < Shape::kNodeTiles; ++n) {
      row[n] = MmaRowOf<Shape::kNumbers>(operands.Row(c, n));
    }
#pragma unroll
    for (int u = 0; u < Shape::kUnitTiles; ++u) {
#pragma unroll
      for (int g = 0; g < Shape::kGroups; ++g) {
        const int read = MmaReadOf<kAll, kOf...>(warp.group + g);
        if (read < 0) continue;
        const uint4 first = operands.Weights(warp.tile + u, c, read, 0);
        const uint4 second = operands.Weights(warp.tile + u, c, read, 1);
#pragma unroll
        for (int n = 0; n < Shape::kNodeTiles; ++n) {
          Mma<Shape::kNumbers>(sums[u][g][n], first, row[n].x, row[n].y);
        }
#pragma unroll
        for (int n = 0; n < Shape::kNodeTiles; ++n) {
          Mma<Shape::kNumbers>(sums[u][g][n], second, row[n].z, row[n].w);
        }
      }
    }
  }
}

// An fp32 in two parts of 11 bits, as tf32 has them: cut, not rounded, so that `big` never overflows, and the 13 bits that are
// left over, of which instructions ignore the lowest two at most. Of what is no finite number `rest` is NaN.
struct MmaParts {
  uint4 big, rest;
};
__device__ __forceinline__ unsigned BigPartOf(unsigned x) { return x & 0xffffe000u; }
__device__ __forceinline__ unsigned RestOf(unsigned x) {
  return __float_as_uint(__uint_as_float(x) - __uint_as_float(BigPartOf(x)));
}
__device__ __forceinline__ MmaParts PartsOf(const uint4& x) {
  return {{BigPartOf(x.x), BigPartOf(x.y), BigPartOf(x.z), BigPartOf(x.w)},
          {RestOf(x.x), RestOf(x.y), RestOf(x.z), RestOf(x.w)}};
}
// Of a row, which may hold denormals. Packed weights hold none.
__device__ __forceinline__ MmaParts PartsOfRow(const uint4& x) {
  return PartsOf({Flushed(x.x), Flushed(x.y), Flushed(x.z), Flushed(x.w)});
}

// What tensor cores summed up of one piece: the products of big parts, and both kinds of mixed ones, which are less by 2^-10. These
// mean nothing where a big part is no finite number: it has said all there is to say.
struct MmaSplitSum {
  float big[4] = {}, weights_rest[4] = {}, rows_rest[4] = {};

  __device__ __forceinline__ void Add(const MmaParts& weights, const MmaParts& row, int step) {
    const unsigned b0 = step == 0 ? row.big.x : row.big.z, b1 = step == 0 ? row.big.y : row.big.w;
    MmaTf32(weights_rest, weights.rest, b0, b1);
    MmaTf32(rows_rest, weights.big, step == 0 ? row.rest.x : row.rest.z,
            step == 0 ? row.rest.y : row.rest.w);
    MmaTf32(big, weights.big, b0, b1);
  }
  __device__ __forceinline__ void AddTo(float (&sums)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float all = big[i];
      if (fabsf(all) < __uint_as_float(0x7f800000u)) all += weights_rest[i] + rows_rest[i];
      sums[i] += all;
    }
  }
};

// As MultiplyMmaPiece, of fp32: three instructions for one, x . w = big . big + big . rest + rest . big (rest . rest is below 2^-20
// of it). Tensor cores truncate when they add, always towards zero; so each piece of 32 k is summed up from zero, and added to the
// others by an addition that rounds. Weights stay whole until here: they are read from far away, and parts are twice the bytes.
template <typename Shape, bool kAll, int... kOf>
__device__ __forceinline__ void MultiplySplitPiece(typename Shape::Sums& sums, const char* stage) {
  const MmaWarp<Shape> warp;
  const MmaOperands<Shape, sizeof...(kOf)> operands(warp, stage);
  MmaParts rows[kMmaPieceChunks][Shape::kNodeTiles];
#pragma unroll
  for (int c = 0; c < kMmaPieceChunks; ++c) {
#pragma unroll
    for (int n = 0; n < Shape::kNodeTiles; ++n) rows[c][n] = PartsOfRow(operands.Row(c, n));
  }
#pragma unroll
  for (int u = 0; u < Shape::kUnitTiles; ++u) {
#pragma unroll
    for (int g = 0; g < Shape::kGroups; ++g) {
      const int read = MmaReadOf<kAll, kOf...>(warp.group + g);
      if (read < 0) continue;
      MmaSplitSum split[Shape::kNodeTiles];
#pragma unroll
      for (int c = 0; c < kMmaPieceChunks; ++c) {
#pragma unroll
        for (int step = 0; step < 2; ++step) {
          const MmaParts weights = PartsOf(operands.Weights(warp.tile + u, c, read, step));
#pragma unroll
          for (int n = 0; n < Shape::kNodeTiles; ++n) split[n].Add(weights, rows[c][n], step);
        }
      }
#pragma unroll
      for (int n = 0; n < Shape::kNodeTiles; ++n) split[n].AddTo(sums[u][g][n]);
    }
  }
}

// visit(group, node, unit, sum) for each sum of this lane; node and unit of the block. Of groups that are none: not.
template <typename Shape, int kAllGroups, typename Visit>
__device__ __forceinline__ void ForEachMmaSum(typename Shape::Sums& sums, const Visit& visit) {
  const MmaWarp<Shape> warp;
  const int node = warp.node + warp.lane % 4 * 2, unit = warp.tile * kMmaUnits + warp.lane / 4;
#pragma unroll
  for (int u = 0; u < Shape::kUnitTiles; ++u) {
#pragma unroll
    for (int g = 0; g < Shape::kGroups; ++g) {
      if (warp.group + g >= kAllGroups) continue;
#pragma unroll
      for (int n = 0; n < Shape::kNodeTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          visit(warp.group + g, node + n * kMmaNodes + i % 2, unit + u * kMmaUnits + i / 2 * 8,
                sums[u][g][n][i]);
        }
      }
    }
  }
}

// The ring of pieces in shared memory, `total` of them, one segment behind the other: rows(piece, to) and weights(piece, to) start
// loading one, kAhead pieces before it is multiplied. The first ones of weights are on their way (FillWithWeights) before rows
// are known.
template <typename Shape, int kStageBytes, typename Rows, typename Weights>
struct MmaRing {
  static constexpr int kStages = Shape::kStages, kAhead = kStages - 1;

  char* const stages;
  const int total;
  Rows& rows;
  Weights& weights;
  int at = 0;            // the piece that is next
  int slot = 0;          // where it lies
  int filling = kAhead;  // where the next one goes that is loaded

  __device__ __forceinline__ void Fill() {
#pragma unroll 1
    for (int p = 0; p < kAhead; ++p) {
      if (p < total) rows(p, stages + p * kStageBytes);
      CloseGroup();
    }
  }
  // The next `pieces` of them, which the groups kOf read, all of them or not. Every thread of the block comes here.
  template <bool kAll, int... kOf>
  __device__ __forceinline__ void Add(typename Shape::Sums& sums, int pieces) {
#pragma unroll 1
    for (const int end = at + pieces; at < end; ++at) {
      WaitForAllBut<kAhead - 1>();
      __syncthreads();  // all of this piece is there, and nobody reads the place of the one before any more
      LoadNext();
      const char* const stage = stages + slot * kStageBytes;
      if constexpr (Shape::kNumbers == MmaNumbers::kFp32) {
        MultiplySplitPiece<Shape, kAll, kOf...>(sums, stage);
      } else {
        MultiplyMmaPiece<Shape, kAll, kOf...>(sums, stage);
      }
      slot = slot + 1 == kStages ? 0 : slot + 1;
    }
  }

 private:
  // REQUIRES: nobody reads the place that is filled next.
  __device__ __forceinline__ void LoadNext() {
    if (at + kAhead < total) {
      weights(at + kAhead, stages + filling * kStageBytes);
      rows(at + kAhead, stages + filling * kStageBytes);
    }
    CloseGroup();
    filling = filling + 1 == kStages ? 0 : filling + 1;
  }
};

// Before it.
template <int kAhead, int kStageBytes, typename Weights>
__device__ __forceinline__ void FillWithWeights(char* stages, int total, Weights& weights) {
#pragma unroll 1
  for (int p = 0; p < min(kAhead, total); ++p) weights(p, stages + p * kStageBytes);
}

}  // namespace cellbatch::cuda_kernels

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_MMA_PRODUCT_CUH_
