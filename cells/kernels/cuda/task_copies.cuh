// Rows that tasks bring from host memory and leave there, whole or in part, and mirrors: what the kernels that begin and end
// tasks (task_kernels.cuh) are mostly made of. Each function is called by all threads of the blocks of one task (a row of the
// grid), unless it says otherwise.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_TASK_COPIES_CUH_
#define CELLBATCH_CELLS_KERNELS_CUDA_TASK_COPIES_CUH_

#include "cells/kernels/cuda/kernel_abi.h"
#include "cells/kernels/cuda/rows.cuh"

namespace cellbatch::cuda_kernels {

using namespace cuda_abi;

inline constexpr int kCopyInWords = sizeof(CopyInItem) / sizeof(int);
inline constexpr int kCopiesAtOnce = 64;  // copies in that a block looks at
inline constexpr int kCopyWordsAThread = kCopiesAtOnce * kCopyInWords / kTaskThreads;
static_assert(kCopiesAtOnce * kCopyInWords % kTaskThreads == 0);
static_assert(kCopiesAtOnce <= kTaskThreads);
inline constexpr int kWarpLanes = 32;
// What a thread asks for before it uses any of it: quads (4 elements) of rows copied in, where they are whole and on a multiple of
// 16 bytes, and where not; likewise out.
inline constexpr int kWholeAtOnce = 8, kPartsAtOnce = 4, kQuadsOutAtOnce = 4;

// One of the copies in.
struct CopyPlan {
  CopiedColumn column;
  const float* source;
  int first, quads_a_row, quads, pieces;
  int pieces_end;         // of it and those before it
  int rows_on, quads_on;  // from a quad to the one that lies a warp's lanes further
  bool whole;             // every quad is, and on a multiple of its size wherever it goes
};

// Warps of all blocks of a task in turn, so that little work is shared out, too.
__device__ __forceinline__ int ThreadOfGrid() {
  const int warp = threadIdx.x / kWarpLanes * gridDim.x + blockIdx.x;
  return warp * kWarpLanes + threadIdx.x % kWarpLanes;
}
__device__ __forceinline__ int ThreadsOfGrid() { return gridDim.x * blockDim.x; }
__device__ __forceinline__ bool IsMultiple(const void* at, int bytes) {
  return reinterpret_cast<unsigned long long>(at) % bytes == 0;
}
__device__ __forceinline__ int Least(int a, int b) { return a < b ? a : b; }

// Copies in ----------------------------------------------------------------------------------------
//
//   copies    [ 0 .. 63 ][ 64 .. 127 ][ 128 ..]        a group of blocks for each 64, as far as there are blocks
//   pieces    | a a a | b | c c c c c | d | ..         of the 64: some quads of one copy each, what a warp asks for at once
//   warps       0 1 2   3   0 1 2 3 0   1              of the group's blocks: long copies have all of them, as short ones do

// Which of the copies in a block looks at, and as which of those that do.
struct CopyShare {
  int first, step, member, members;
};
__device__ __forceinline__ CopyShare ShareOf(int num_copies) {
  const int blocks = gridDim.x, block = blockIdx.x;
  if (num_copies <= kCopiesAtOnce) return {0, kCopiesAtOnce, block, blocks};
  const int groups = Least((num_copies + kCopiesAtOnce - 1) / kCopiesAtOnce, blocks);
  const int group = block % groups;
  return {group * kCopiesAtOnce, groups * kCopiesAtOnce, block / groups,
          (blocks - group + groups - 1) / groups};
}

// Words of the items from `first` on, as many as a block looks at: asked for, and kept once they are there.
__device__ __forceinline__ void AskForCopies(const TaskSlot& slot, int first,
                                             int (&words)[kCopyWordsAThread]) {
  const int* const from = reinterpret_cast<const int*>(slot.copies_in + first);
  const int count = (slot.num_copies_in - first) * kCopyInWords;
#pragma unroll
  for (int w = 0; w < kCopyWordsAThread; ++w) {
    const int i = w * kTaskThreads + threadIdx.x;
    words[w] = i < count ? from[i] : 0;
  }
}
__device__ __forceinline__ void KeepCopies(const int (&words)[kCopyWordsAThread],
                                           CopyInItem* copies) {
#pragma unroll
  for (int w = 0; w < kCopyWordsAThread; ++w) {
    reinterpret_cast<int*>(copies)[w * kTaskThreads + threadIdx.x] = words[w];
  }
}

// One copy, by its thread.
__device__ inline void PlanCopy(const CopyInItem& copy, const CopiedColumn* columns,
                                CopyPlan& plan) {
  plan.pieces = 0;
  if (copy.rows <= 0) return;  // blanked: its table is none
  const CopiedColumn column = columns[copy.table * kMostTableColumns + copy.column];
  plan.column = column;
  plan.source = reinterpret_cast<const float*>(copy.source);
  plan.first = copy.first;
  plan.quads_a_row = (column.width + 3) / 4;
  plan.quads = copy.rows * plan.quads_a_row;
  plan.rows_on = kWarpLanes / plan.quads_a_row;
  plan.quads_on = kWarpLanes % plan.quads_a_row;
  plan.whole = column.width % 4 == 0 && column.stride % 4 == 0 && IsMultiple(copy.source, 16) &&
               IsMultiple(column.base, 16) && IsMultiple(column.rounded, 8) &&
               IsMultiple(column.mirror, 16);
  const int piece = (plan.whole ? kWholeAtOnce : kPartsAtOnce) * kWarpLanes;
  plan.pieces = (plan.quads + piece - 1) / piece;
}
__device__ inline int PiecesUpTo(const CopyPlan* plans, int copy) {
  int end = 0;
#pragma unroll 4
  for (int c = 0; c <= copy; ++c) end += plans[c].pieces;
  return end;
}

// Elements of a row that lie together, `count` of them, 1 to 4; kWhole: 4, on a multiple of 16 bytes.
template <bool kWhole>
__device__ __forceinline__ float4 LoadQuad(const float* from, int count) {
  if (kWhole) return *reinterpret_cast<const float4*>(from);
  float4 quad = make_float4(from[0], 0.0f, 0.0f, 0.0f);
  if (count > 1) quad.y = from[1];
  if (count > 2) quad.z = from[2];
  if (count > 3) quad.w = from[3];
  return quad;
}
template <bool kWhole>
__device__ __forceinline__ void StoreQuad(const float4& quad, int count, float* to) {
  if (kWhole) {
    *reinterpret_cast<float4*>(to) = quad;
    return;
  }
  to[0] = quad.x;
  if (count > 1) to[1] = quad.y;
  if (count > 2) to[2] = quad.z;
  if (count > 3) to[3] = quad.w;
}
template <bool kWhole>
__device__ __forceinline__ void StoreRounded(const float4& quad, int count, unsigned short* to) {
  if (kWhole) {
    const auto two = [](float low, float high) {
      return RoundedToBf16(low) | static_cast<unsigned>(RoundedToBf16(high)) << 16;
    };
    *reinterpret_cast<uint2*>(to) = uint2{two(quad.x, quad.y), two(quad.z, quad.w)};
    return;
  }
  to[0] = RoundedToBf16(quad.x);
  if (count > 1) to[1] = RoundedToBf16(quad.y);
  if (count > 2) to[2] = RoundedToBf16(quad.z);
  if (count > 3) to[3] = RoundedToBf16(quad.w);
}

// visit(part, row, element in it) for each quad that a thread has of a piece. No lambda of its own: NVRTC takes no generic ones.
template <int kQuads, typename Visit>
__device__ __forceinline__ void ForEachPart(const CopyPlan& plan, int first,
                                            float4 (&parts)[kQuads], const Visit& visit) {
  const int quads_a_row = plan.quads_a_row;
  const int left = (plan.quads - first + kWarpLanes - 1) / kWarpLanes;  // this thread's
  int row = first / quads_a_row, in_row = first % quads_a_row;
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    if (q < left) visit(parts[q], static_cast<long long>(row), in_row * 4);
    row += plan.rows_on;
    in_row += plan.quads_on;
    if (in_row < quads_a_row) continue;
    in_row -= quads_a_row;
    ++row;
  }
}

// One piece of a copy, by a warp.
template <bool kWhole, int kQuads>
__device__ inline void CopyPiece(const CopyPlan& plan, int piece) {
  float* const base = plan.column.base;
  int* const mirror = plan.column.mirror;
  unsigned short* const rounded = plan.column.rounded;
  const long long stride = plan.column.stride;
  const int width = plan.column.width;
  const float* const source = plan.source;
  const long long first_row = plan.first;
  const int first = piece * kQuads * kWarpLanes + threadIdx.x % kWarpLanes;
  float4 parts[kQuads];
  ForEachPart(plan, first, parts, [&](float4& part, long long r, int at) {
    part = LoadQuad<kWhole>(source + r * width + at, width - at);
  });
  ForEachPart(plan, first, parts, [&](const float4& part, long long r, int at) {
    const long long to = (first_row + r) * stride + at;
    StoreQuad<kWhole>(part, width - at, base + to);
    if (rounded != nullptr) StoreRounded<kWhole>(part, width - at, rounded + to);
    if (mirror == nullptr) return;
    float* const row_there = reinterpret_cast<float*>(mirror) + (first_row + r) * width;
    StoreQuad<kWhole>(part, width - at, row_there + at);
  });
}

// The pieces of the first `count` copies, by the warps of those blocks that look at them.
__device__ inline void CopyPieces(const CopyPlan* plans, int count, const CopyShare& share) {
  const int warps = blockDim.x / kWarpLanes, total = plans[count - 1].pieces_end;
  const int warp = threadIdx.x / kWarpLanes * share.members + share.member;
  for (int p = warp; p < total; p += share.members * warps) {
    int c = 0;
#pragma unroll 4
    for (int k = 0; k < count; ++k) c += p >= plans[k].pieces_end ? 1 : 0;
    const int piece = p - (plans[c].pieces_end - plans[c].pieces);
    if (plans[c].whole) {
      CopyPiece<true, kWholeAtOnce>(plans[c], piece);
    } else {
      CopyPiece<false, kPartsAtOnce>(plans[c], piece);
    }
  }
}

// Copies out ---------------------------------------------------------------------------------------

// All items, as if the widest column were everybody's, by all threads of the grid.
__device__ inline void CopyOut(const CopyOutItem* items, int num_items, const CopiedColumn* columns,
                               int quads_a_row) {
  if (num_items == 0) return;
  const int items_on = ThreadsOfGrid() / quads_a_row, quads_on = ThreadsOfGrid() % quads_a_row;
  int item = ThreadOfGrid() / quads_a_row, quad = ThreadOfGrid() % quads_a_row;
  while (item < num_items) {
    CopyOutItem of[kQuadsOutAtOnce];
    int at[kQuadsOutAtOnce],
        counts[kQuadsOutAtOnce];  // count: 0 or less where nothing is to be copied
    const float* from[kQuadsOutAtOnce];
    bool whole[kQuadsOutAtOnce];
    float4 parts[kQuadsOutAtOnce];
#pragma unroll
    for (int q = 0; q < kQuadsOutAtOnce; ++q) {
      of[q] = items[Least(item, num_items - 1)];
      if (item >= num_items) of[q].dest = nullptr;
      at[q] = quad * 4;
      item += items_on;
      quad += quads_on;
      if (quad < quads_a_row) continue;
      quad -= quads_a_row;
      ++item;
    }
#pragma unroll
    for (int q = 0; q < kQuadsOutAtOnce; ++q) {
      const bool wanted = of[q].dest != nullptr;
      const CopiedColumn& column = columns[wanted ? of[q].column : 0];
      counts[q] = wanted ? column.width - at[q] : 0;
      from[q] = column.base + of[q].row * column.stride + at[q];
      of[q].dest += at[q] * sizeof(float);
      whole[q] = counts[q] >= 4 && IsMultiple(from[q], 16) && IsMultiple(of[q].dest, 16);
    }
#pragma unroll
    for (int q = 0; q < kQuadsOutAtOnce; ++q) {
      if (counts[q] <= 0) continue;
      parts[q] = whole[q] ? LoadQuad<true>(from[q], 4) : LoadQuad<false>(from[q], counts[q]);
    }
#pragma unroll
    for (int q = 0; q < kQuadsOutAtOnce; ++q) {
      if (counts[q] <= 0) continue;
      float* const to = reinterpret_cast<float*>(of[q].dest);
      if (whole[q]) {
        StoreQuad<true>(parts[q], 4, to);
      } else {
        StoreQuad<false>(parts[q], counts[q], to);
      }
    }
  }
}

// The widest of the columns, and whether there are mirrors.
struct ColumnFacts {
  int most_width;
  bool mirrored;
};
__device__ inline ColumnFacts FactsOf(const CopiedColumn* columns, int num_columns) {
  ColumnFacts facts = {};
#pragma unroll 1
  for (int first = 0; first < num_columns; first += 4) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {  // the last one again, rather than one after the other
      const CopiedColumn& column = columns[Least(first + k, num_columns - 1)];
      facts.most_width = column.width > facts.most_width ? column.width : facts.most_width;
      facts.mirrored |= column.mirror != nullptr;
    }
  }
  return facts;
}

__device__ inline void Mirror(const CopiedColumn& column, const int* rows, int num_rows) {
  for (int i = ThreadOfGrid(); i < num_rows * column.width; i += ThreadsOfGrid()) {
    const long long row = rows[i / column.width];
    const int at = i % column.width;
    column.mirror[row * column.width + at] = __float_as_int(column.base[row * column.stride + at]);
  }
}

}  // namespace cellbatch::cuda_kernels

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_TASK_COPIES_CUH_
