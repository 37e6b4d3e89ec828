// Register tiles for one Vec: rows x columns of 16 sums, over weights as they are stored. Included only by the one file of
// each instruction set, which says by its Vec what a tile may hold (Tiling).
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TILE_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TILE_INL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "cells/kernels/cpu/stored_inl.h"
#include "cells/kernels/cpu/tiling.h"

namespace cellbatch::kernels {

struct TileArgs {
  const float* const* x;  // one pointer a row; of packed rows (packed_rows_inl.h) one in all
  int64_t k;              // first number of the row
  int depth;              // how many; of weights stored in pairs, how many pairs
  const void* w;          // [depth][columns][16], as they are stored
  float* sums;            // row r, column n: sums + r * sums_stride + column[n]
  int64_t sums_stride;
  const int32_t* column;       // of a pair: the first panel's, then the other's
  const float* prefetch;       // what is needed next: some cache lines from here a step of k
  int64_t line_step = kLanes;  // of columns side by side: floats from one of them to the next
  int64_t apart =
      0;  // numbers from the first panel's weights to the other's of a pair; or from a column's to the next one's
  int ahead =
      0;  // of columns apart: steps, from the first, in which a line is prefetched to L1, and those as far apart
  // What is added to: row r, column n: from + r * from_stride + from_column[n]. The sums as they are, or what those of all rows
  // start from.
  const float* from = nullptr;
  int64_t from_stride = 0;
  const int32_t* from_column = nullptr;
};

// f(0), f(1), ... f(N - 1), each with its number known when compiled: arrays indexed by it are registers from the
// start. (gcc 12 unrolls plain loops too late for that and leaves a copy of the sums on the stack; and without
// always_inline on the lambdas too, it may leave calls.)
template <int N, class F>
[[gnu::always_inline]] inline void Unrolled(F f) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    (f(std::integral_constant<int, I>()), ...);
  }
  (std::make_integer_sequence<int, N>());
}

// R rows x C of N columns, from column `first`, of P panels: every accumulator is one chain over k. Meanwhile kAhead
// cache lines a step are prefetched to L2, from `ahead`, or one in several steps; or, if it is kNear, the lines of these
// columns to L1.
template <class V, class S, int R, int N, int C, int P, int kAhead>
[[gnu::always_inline]] inline void TileColumns(const TileArgs& t, int first, const float* ahead) {
  using Number = typename S::Number;
  V sum[R][P * C];
  const float* x[R];
  Unrolled<R>([&](auto r) __attribute__((always_inline)) {
    x[r] = t.x[r] + t.k;
    const float* const from = t.from + r * t.from_stride;
    Unrolled<P * C>([&](auto i) __attribute__((always_inline)) {
      sum[r][i] = V::Load(from + t.from_column[i / C * N + first + i % C]);
    });
  });
  const Number* w = static_cast<const Number*>(t.w) + first * kColumnStep<S>;
  const int64_t apart = t.apart, line_step = t.line_step;
  const int depth = t.depth;
  const auto add = [&](int k) __attribute__((always_inline)) {
    Unrolled<P>([&](auto p) __attribute__((always_inline)) {
      Unrolled<S::kDepth>([&](auto d) __attribute__((always_inline)) {
        V weights[C];
        Unrolled<C>([&](auto c) __attribute__((always_inline)) {
          weights[c] = S::template Load<V, d>(w + p * apart + c * kColumnStep<S>);
        });
        Unrolled<R>([&](auto r) __attribute__((always_inline)) {
          const V value = V::Broadcast(x[r][k * S::kDepth + d]);
          Unrolled<C>([&](auto c) __attribute__((always_inline)) {
            sum[r][p * C + c] = S::MultiplyAdd(value, weights[c], sum[r][p * C + c]);
          });
        });
      });
    });
  };
  constexpr int kSteps = StepsALine(kAhead);
  int k = 0;
  for (; kSteps > 1 && k + 4 <= depth; k += 4) {
    Unrolled<4>([&](auto i) __attribute__((always_inline)) {
      add(k + i);
      if constexpr (i % kSteps == 0) {
        __builtin_prefetch(ahead, 0, 2);
        ahead += line_step;
      }
      w += N * kColumnStep<S>;
    });
  }
#pragma GCC unroll 4
  for (; k < depth; ++k) {
    add(k);
    if constexpr (kAhead == kNear) {
      Unrolled<LinesOf<S>(C)>([&](auto i) __attribute__((always_inline)) {
        __builtin_prefetch(reinterpret_cast<const char*>(w) + kNearBytes + i * kLineBytes, 0, 3);
      });
    } else if constexpr (kSteps == 1) {
      Unrolled<kAhead>([&](auto) __attribute__((always_inline)) {
        __builtin_prefetch(ahead, 0, 2);
        ahead += line_step;
      });
    }
    w += N * kColumnStep<S>;
  }
  // Where the sums go is read again, so that the loop above has all general registers for its pointers.
  const TileArgs* again = &t;
  __asm__ volatile("" : "+r"(again));
  Unrolled<R>([&](auto r) __attribute__((always_inline)) {
    float* const sums = again->sums + r * again->sums_stride;
    Unrolled<P * C>([&](auto i) __attribute__((always_inline)) {
      sum[r][i].Store(sums + again->column[i / C * N + first + i % C]);
    });
  });
}

// All N columns, in passes of as many as registers allow, which share the prefetching.
template <class V, class Tiling, class S, int R, int N, int kAhead>
void Tile(const TileArgs& t) {
  constexpr int kPasses = (N + Tiling::Columns(R) - 1) / Tiling::Columns(R);
  Unrolled<kPasses>([&](auto pass) __attribute__((always_inline)) {
    constexpr int kFirst = PartStart(N, kPasses, pass), kEnd = PartStart(N, kPasses, pass + 1);
    if constexpr (kAhead == kNear) {
      TileColumns<V, S, R, N, kEnd - kFirst, 1, kNear>(t, kFirst, nullptr);
    } else if constexpr (kAhead == 1 && kPasses == 2) {  // each every second step
      TileColumns<V, S, R, N, kEnd - kFirst, 1, kEverySecond>(
          t, kFirst, t.prefetch + pass * LinesIn(t.depth, kEverySecond) * t.line_step);
    } else if constexpr (StepsALine(kAhead) > 1) {  // the first pass alone
      TileColumns<V, S, R, N, kEnd - kFirst, 1, kFirst == 0 ? kAhead : 0>(t, kFirst, t.prefetch);
    } else {
      constexpr int kFrom = PartStart(kAhead, kPasses, pass);
      constexpr int kLines = PartStart(kAhead, kPasses, pass + 1) - kFrom;
      TileColumns<V, S, R, N, kEnd - kFirst, 1, kLines>(
          t, kFirst, t.prefetch + int64_t{t.depth} * kFrom * t.line_step);
    }
  });
}

// All N columns of two panels.
template <class V, class S, int R, int N>
void PairTile(const TileArgs& t) {
  TileColumns<V, S, R, N, N, 2, 0>(t, 0, nullptr);
}

// R rows x C columns whose weights lie apart (WeightOrder::kColumnByColumn), as many streams. kPacked: the rows are.
template <class V, class S, int R, int C, bool kPacked = false>
void ApartTile(const TileArgs& t) {
  using Number = typename S::Number;
  static_assert(!kPacked || S::kDepth == 1);
  V sum[R][C];
  const float* x[kPacked ? 1 : R];
  if constexpr (kPacked) x[0] = t.x[0] + t.k * R;
  Unrolled<R>([&](auto r) __attribute__((always_inline)) {
    if constexpr (!kPacked) x[r] = t.x[r] + t.k;
    const float* const from = t.from + r * t.from_stride;
    Unrolled<C>([&](auto c) __attribute__((always_inline)) {
      sum[r][c] = V::Load(from + t.from_column[c]);
    });
  });
  const Number* w = static_cast<const Number*>(t.w);
  const int64_t apart = t.apart;
  const auto add = [&](int k) __attribute__((always_inline)) {
    Unrolled<S::kDepth>([&](auto d) __attribute__((always_inline)) {
      Unrolled<C>([&](auto c) __attribute__((always_inline)) {
        const V weights = S::template Load<V, d>(w + c * apart);
        Unrolled<R>([&](auto r) __attribute__((always_inline)) {
          const float value = kPacked ? x[0][r] : x[kPacked ? 0 : r][k * S::kDepth + d];
          sum[r][c] = S::MultiplyAdd(V::Broadcast(value), weights, sum[r][c]);
          // Six sums leave registers for one broadcast at a time: gcc is not to keep all for the next column.
          if constexpr (C > 1 && R * C == 6) __asm__("" : "+r"(x[r]));
        });
      });
      // Nor has it room for pairs until the other one's turn: they are loaded once more.
      if constexpr (S::kDepth > 1) __asm__("" : "+r"(w));
    });
    w += kColumnStep<S>;
    if constexpr (kPacked) x[0] += R;
  };
  const int depth = t.depth, ahead = t.ahead < depth ? t.ahead : depth;
  const float* line = t.prefetch;
  int k = 0;
#pragma GCC unroll 4
  for (; k < ahead; ++k, line += kLanes) {
    add(k);
    Unrolled<C>([&](auto c) __attribute__((always_inline)) {
      __builtin_prefetch(reinterpret_cast<const Number*>(line) + c * apart, 0, 3);
    });
  }
#pragma GCC unroll 4
  for (; k < depth; ++k) add(k);
  const TileArgs* again = &t;  // as in TileColumns
  __asm__ volatile("" : "+r"(again));
  Unrolled<R>([&](auto r) __attribute__((always_inline)) {
    float* const sums = again->sums + r * again->sums_stride;
    Unrolled<C>([&](auto c)
                    __attribute__((always_inline)) { sum[r][c].Store(sums + again->column[c]); });
  });
}

using TileFunction = void (*)(const TileArgs&);

// Functions by columns and what is prefetched (0..columns lines a step of k, or as tiling.h says), for one number of rows;
// and those of pairs.
template <class V, class Tiling, class S, int R>
struct TilesOfRows {
  template <int N, int kAhead>
  static constexpr TileFunction One() {
    if constexpr (IsLaid<Tiling, S>(R, N, kAhead)) {
      return Tile<V, Tiling, S, R, N, kAhead>;
    } else {
      return nullptr;
    }
  }
  template <int N>
  static constexpr TileFunction Pair() {
    if constexpr (R <= Tiling::PairRows(N)) {
      return PairTile<V, S, R, N>;
    } else {
      return nullptr;
    }
  }

  static TileFunction Find(int columns, int ahead) {
    static constexpr auto kTiles = []<int... I>(std::integer_sequence<int, I...>) {
      return std::array<TileFunction, sizeof...(I)>{One<I / kWays + 1, I % kWays>()...};
    }
    (std::make_integer_sequence<int, kMaxColumns * kWays>());
    return kTiles[static_cast<size_t>((columns - 1) * kWays + ahead)];
  }
  static TileFunction FindPair(int columns) {
    static constexpr TileFunction kPairs[kMaxColumns] = {Pair<1>(), Pair<2>(), Pair<3>(), Pair<4>(),
                                                         Pair<5>()};
    return kPairs[columns - 1];
  }
  // Of at most Columns(R) columns that lie apart.
  static TileFunction FindApart(int columns) {
    static constexpr auto kTiles = []<int... I>(std::integer_sequence<int, I...>) {
      return std::array<TileFunction, sizeof...(I)>{ApartTile<V, S, R, I + 1>...};
    }
    (std::make_integer_sequence<int, Tiling::Columns(R)>());
    return kTiles[static_cast<size_t>(columns - 1)];
  }
  // Of one such column and rows that are packed.
  static TileFunction FindPacked() {
    if constexpr (R >= kLeastPackedRows<Tiling>) {
      return ApartTile<V, S, R, 1, true>;
    } else {
      return nullptr;
    }
  }

 private:
  static constexpr int kWays = kWaysAhead;
};

template <class V, class Tiling, class S, int R = Tiling::kRows>
TileFunction FindTile(int rows, int columns, int ahead) {
  if constexpr (R > 1) {
    if (rows < R) return FindTile<V, Tiling, S, R - 1>(rows, columns, ahead);
  }
  return TilesOfRows<V, Tiling, S, R>::Find(columns, ahead);
}
template <class V, class Tiling, class S, int R = Tiling::kRows>
TileFunction FindPairTile(int rows, int columns) {
  if constexpr (R > 1) {
    if (rows < R) return FindPairTile<V, Tiling, S, R - 1>(rows, columns);
  }
  return TilesOfRows<V, Tiling, S, R>::FindPair(columns);
}
template <class V, class Tiling, class S, int R = Tiling::kRows>
TileFunction FindApartTile(int rows, int columns) {
  if constexpr (R > 1) {
    if (rows < R) return FindApartTile<V, Tiling, S, R - 1>(rows, columns);
  }
  return TilesOfRows<V, Tiling, S, R>::FindApart(columns);
}
template <class V, class Tiling, class S, int R = Tiling::kRows>
TileFunction FindPackedTile(int rows) {
  if constexpr (R > 1) {
    if (rows < R) return FindPackedTile<V, Tiling, S, R - 1>(rows);
  }
  return TilesOfRows<V, Tiling, S, R>::FindPacked();
}

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TILE_INL_H_
