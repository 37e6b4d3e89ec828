// Rows of a row block copied for a tile that reads them again for every column of every panel: what it multiplies in one
// step lies side by side, and its steps follow each other. Included only by the one file of each instruction set.
//
//   where they lie                 for the tile
//   row 0  k=0 1 2 3 ...           k=0 of rows 0..5 | k=1 of rows 0..5 | ...
//   row 1  k=0 1 2 3 ...           one stream instead of six, that any prefetcher follows; and rows which stand a multiple
//   ...                            of a page apart, or nearly, no longer meet in the same few sets of L1
#ifndef CELLBATCH_CELLS_KERNELS_CPU_PACKED_ROWS_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_PACKED_ROWS_INL_H_

#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace cellbatch::kernels {
namespace {  // of each file that includes it

using FourFloats [[gnu::vector_size(16)]] = float;
using FourNumbers [[gnu::vector_size(16)]] = int32_t;
using TwoHalves [[gnu::vector_size(16)]] = int64_t;

inline FourFloats LoadFour(const float* p) {
  FourFloats v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
// The lower two floats, or the upper.
template <int kHalf>
inline void StoreTwo(FourFloats v, float* p) {
  const int64_t two = reinterpret_cast<TwoHalves>(v)[kHalf];
  std::memcpy(p, &two, sizeof two);
}

constexpr FourNumbers kLowOfBoth = {0, 4, 1, 5}, kHighOfBoth = {2, 6, 3, 7};
constexpr FourNumbers kFirstHalves = {0, 1, 4, 5}, kSecondHalves = {2, 3, 6, 7};

// Four steps of four rows: to[i * stride + r] = x[r][k + i].
inline void PackFour(const float* const* x, int64_t k, int stride, float* to) {
  const FourFloats a = LoadFour(x[0] + k), b = LoadFour(x[1] + k), c = LoadFour(x[2] + k),
                   d = LoadFour(x[3] + k);
  for (const FourNumbers& which : {kLowOfBoth, kHighOfBoth}) {
    const FourFloats ab = __builtin_shuffle(a, b, which), cd = __builtin_shuffle(c, d, which);
    for (const FourNumbers& halves : {kFirstHalves, kSecondHalves}) {
      const FourFloats step = __builtin_shuffle(ab, cd, halves);
      std::memcpy(to, &step, sizeof step);
      to += stride;
    }
  }
}
// Of two rows.
inline void PackTwo(const float* const* x, int64_t k, int stride, float* to) {
  const FourFloats a = LoadFour(x[0] + k), b = LoadFour(x[1] + k);
  for (const FourNumbers& which : {kLowOfBoth, kHighOfBoth}) {
    const FourFloats two_steps = __builtin_shuffle(a, b, which);
    StoreTwo<0>(two_steps, to);
    StoreTwo<1>(two_steps, to + stride);
    to += 2 * stride;
  }
}

// to[k * rows + r] = x[r][k]. Takes as long as half a panel's products (Zen 3).
inline void PackRows(const float* const* x, int rows, int depth, float* to) {
  int k = 0;
  for (; k + 4 <= depth; k += 4, to += 4 * rows) {
    int r = 0;
    for (; r + 4 <= rows; r += 4) PackFour(x + r, k, rows, to + r);
    for (; r + 2 <= rows; r += 2) PackTwo(x + r, k, rows, to + r);
    for (; r < rows; ++r) {
      for (int i = 0; i < 4; ++i) to[i * rows + r] = x[r][k + i];
    }
  }
  for (; k < depth; ++k) {
    for (int r = 0; r < rows; ++r) *to++ = x[r][k];
  }
}

}  // namespace
}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_PACKED_ROWS_INL_H_
