// Products of one node's values with each other, for one Vec: no weights, nothing packed. Included only by the one file
// of each instruction set.
//
//   by rows of w      y[m][n] = x[m] . w[n]             each a sum of 64 chains, added in one order
//   by columns of w   y[m][n] = sum over k of x[m][k] w[k][n]   each one chain over k: tiles of rows x columns of 16
//
// The order of sums depends on the depth alone, so a row's bits are its own.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_MAT_MUL_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_MAT_MUL_INL_H_

#include <cstdint>

#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/product_inl.h"

namespace cellbatch::kernels {

// R rows by C columns of 16; the last column may have fewer lanes.
template <class V, int R, int C, bool kFull>
void MatMulTile(const MatMulArgs& a, int32_t row, int32_t col, int lanes) {
  using E = Edge<V, kFull>;
  V sum[R][C];
  const float* x[R];
  Unrolled<R>([&](auto r) __attribute__((always_inline)) {
    x[r] = a.x + (row + r) * a.x_stride;
    Unrolled<C>([&](auto c) __attribute__((always_inline)) { sum[r][c] = V::Broadcast(0.0f); });
  });
  const float* w = a.w + col;
  for (int32_t k = 0; k < a.depth; ++k, w += a.w_stride) {
    V weights[C];
    Unrolled<C>([&](auto c) __attribute__((always_inline)) {
      weights[c] = E::Load(w + c * kLanes, lanes);
    });
    Unrolled<R>([&](auto r) __attribute__((always_inline)) {
      const V value = V::Broadcast(x[r][k]);
      Unrolled<C>([&](auto c) __attribute__((always_inline)) {
        sum[r][c] = V::Fma(value, weights[c], sum[r][c]);
      });
    });
  }
  Unrolled<R>([&](auto r) __attribute__((always_inline)) {
    float* const y = a.y + int64_t{row + r} * a.cols + col;
    Unrolled<C>([&](auto c)
                    __attribute__((always_inline)) { E::Store(sum[r][c], y + c * kLanes, lanes); });
  });
}

// All rows of C columns of 16 from `col` on: this strip of w stays in a cache.
template <class V, class Tiling, int C, bool kFull, int R = Tiling::kFullRows>
void MatMulStrip(const MatMulArgs& a, int32_t row, int32_t col, int lanes) {
  for (; row + R <= a.rows; row += R) MatMulTile<V, R, C, kFull>(a, row, col, lanes);
  if constexpr (R > 1) {
    if (row < a.rows) MatMulStrip<V, Tiling, C, kFull, R - 1>(a, row, col, lanes);
  }
}

template <class V, class Tiling>
void MatMulByColumns(const MatMulArgs& a) {
  constexpr int kAtOnce = Tiling::Columns(Tiling::kFullRows);
  // One row alone needs more columns, to have chains enough.
  constexpr int kOfOneRow = Tiling::Columns(1);
  int32_t col = 0;
  if (a.rows == 1) {
    for (; col + kOfOneRow * kLanes <= a.cols; col += kOfOneRow * kLanes) {
      MatMulTile<V, 1, kOfOneRow, true>(a, 0, col, kLanes);
    }
  }
  for (; col + kAtOnce * kLanes <= a.cols; col += kAtOnce * kLanes) {
    MatMulStrip<V, Tiling, kAtOnce, true>(a, 0, col, kLanes);
  }
  for (; col + kLanes <= a.cols; col += kLanes) {
    MatMulStrip<V, Tiling, 1, true>(a, 0, col, kLanes);
  }
  if (col < a.cols) MatMulStrip<V, Tiling, 1, false>(a, 0, col, a.cols - col);
}

template <class V>
float Dot(const float* x, const float* w, int32_t depth) {
  constexpr int kChains = 4;
  V sum[kChains];
  for (V& s : sum) s = V::Broadcast(0.0f);
  int32_t k = 0;
  for (; k + kChains * kLanes <= depth; k += kChains * kLanes) {
    for (int i = 0; i < kChains; ++i) {
      sum[i] = V::Fma(V::Load(x + k + i * kLanes), V::Load(w + k + i * kLanes), sum[i]);
    }
  }
  for (; k < depth; k += kLanes) {
    const int lanes = depth - k < kLanes ? depth - k : kLanes;
    sum[0] = V::Fma(V::LoadPart(x + k, lanes), V::LoadPart(w + k, lanes), sum[0]);
  }
  float lanes[kLanes];
  ((sum[0] + sum[1]) + (sum[2] + sum[3])).Store(lanes);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

template <class V>
void MatMulByRows(const MatMulArgs& a) {
  for (int32_t m = 0; m < a.rows; ++m) {
    for (int32_t n = 0; n < a.cols; ++n) {
      a.y[int64_t{m} * a.cols + n] = Dot<V>(a.x + m * a.x_stride, a.w + n * a.w_stride, a.depth);
    }
  }
}

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_MAT_MUL_INL_H_
