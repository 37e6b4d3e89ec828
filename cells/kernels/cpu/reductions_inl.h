// Row kernels without weights, for one Vec. Included only by the one file of each instruction set.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_REDUCTIONS_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_REDUCTIONS_INL_H_

#include <cstdint>

#include "cells/kernels/cpu/product.h"
#include "cells/kernels/cpu/rows.h"

namespace cellbatch::kernels {

template <class V>
void SumRows(const RowSource& in, const int32_t* offsets, int32_t width, int32_t num_rows,
             const RowColumn& out) {
  for (int32_t r = 0; r < num_rows; ++r) {
    float* const to = out.Row(r);
    for (int32_t u = 0; u < width; u += 16) {
      const int lanes = width - u < 16 ? width - u : 16;
      V sum = V::Broadcast(0.0f);
      for (int32_t i = offsets[r]; i < offsets[r + 1]; ++i) {
        const V row = V::LoadPart(in.Row(i) + u, lanes);
        sum = i == offsets[r] ? row : sum + row;  // one row is itself, bit by bit: -0 stays -0
      }
      sum.StorePart(to + u, lanes);
    }
  }
}

// Eight chains: element i belongs to chain i % 8. Those in memory need no alignment: under AddressSanitizer GCC 12 gives
// objects on the stack less than they ask for (its bug 110027).
using EightFloats [[gnu::vector_size(32)]] = float;
using EightDoubles [[gnu::vector_size(64), gnu::aligned(8)]] = double;

// What an element, or eight, becomes before it is added up: itself, or the square of what it is above `less`, each operation
// rounded. (Of a V like all that is here, so that each instruction set has its own.)
template <class V>
struct AsItIs {
  template <class T>
  [[gnu::always_inline]] void operator()(T&) const {}
};
template <class V>
struct SquareAbove {
  float less;
  template <class T>
  [[gnu::always_inline]] void operator()(T& x) const {
    x -= less;
    x *= x;
  }
};

template <class V, class Of>
[[gnu::always_inline]] inline void AddEight(const float* x, Of of, EightDoubles& sums) {
  EightFloats floats;
  __builtin_memcpy(&floats, x, sizeof floats);
  of(floats);
  sums += __builtin_convertvector(floats, EightDoubles);
}

// The chains of whole eights, what is left of the row, and the sum of them all.
template <class V, class Of>
[[gnu::always_inline]] inline float FinishSum(EightDoubles chains, const float* rest, int32_t count,
                                              Of of, double divisor) {
  const auto chain = [&](int32_t i) {
    if (i >= count) return chains[i];
    float x = rest[i];
    of(x);
    return chains[i] + static_cast<double>(x);
  };
  const double sum = ((chain(0) + chain(1)) + (chain(2) + chain(3))) +
                     ((chain(4) + chain(5)) + (chain(6) + chain(7)));
  return static_cast<float>(sum / divisor);
}

// `of_row(r)`: what is added up of row r's elements. Four rows at once, because each has one chain of additions a lane to
// wait for.
template <class V, class OfRow>
[[gnu::always_inline]] inline void SumOfRows(const RowSource& in, OfRow of_row, int32_t width,
                                             double divisor, int32_t num_rows,
                                             const RowColumn& out) {
  const int32_t whole = width / 8 * 8, rest = width - whole;
  const auto finish = [&](const EightDoubles& sums, int32_t r) {
    *out.Row(r) = FinishSum<V>(sums, in.Row(r) + whole, rest, of_row(r), divisor);
  };
  int32_t r = 0;
  for (; r + 4 <= num_rows; r += 4) {
    const float *x0 = in.Row(r), *x1 = in.Row(r + 1), *x2 = in.Row(r + 2), *x3 = in.Row(r + 3);
    const auto of0 = of_row(r), of1 = of_row(r + 1), of2 = of_row(r + 2), of3 = of_row(r + 3);
    EightDoubles s0 = {}, s1 = {}, s2 = {}, s3 = {};
    for (int32_t i = 0; i < whole; i += 8) {
      AddEight<V>(x0 + i, of0, s0);
      AddEight<V>(x1 + i, of1, s1);
      AddEight<V>(x2 + i, of2, s2);
      AddEight<V>(x3 + i, of3, s3);
    }
    finish(s0, r);
    finish(s1, r + 1);
    finish(s2, r + 2);
    finish(s3, r + 3);
  }
  for (; r < num_rows; ++r) {
    const float* const x = in.Row(r);
    const auto of = of_row(r);
    EightDoubles sums = {};
    for (int32_t i = 0; i < whole; i += 8) AddEight<V>(x + i, of, sums);
    finish(sums, r);
  }
}

template <class V>
void SumElements(const RowSource& in, int32_t width, double divisor, int32_t num_rows,
                 const RowColumn& out) {
  SumOfRows<V>(
      in, [](int32_t) { return AsItIs<V>(); }, width, divisor, num_rows, out);
}

template <class V>
void SumSquares(const RowSource& in, const RowSource& less, int32_t width, double divisor,
                int32_t num_rows, const RowColumn& out) {
  const auto above = [&](int32_t r) {
    return SquareAbove<V>{less.base == nullptr ? 0.0f : *less.Row(r)};
  };
  SumOfRows<V>(in, above, width, divisor, num_rows, out);
}

template <class V>
void BroadcastRows(const RowSource& in, int32_t width, int32_t num_rows, const RowColumn& out) {
  for (int32_t r = 0; r < num_rows; ++r) {
    const V value = V::Broadcast(*in.Row(r));
    float* const to = out.Row(r);
    int32_t u = 0;
    for (; u + 16 <= width; u += 16) value.Store(to + u);
    if (u < width) value.StorePart(to + u, width - u);
  }
}

// NaN is never larger; of NaN alone: minus infinity.
template <class V>
float LargestOf(const float* row, int32_t width) {
  int32_t u = 0;
  V most = V::Broadcast(-__builtin_inff());
  for (; u + 16 <= width; u += 16) most = V::Max(V::Load(row + u), most);
  float lanes[16], largest = -__builtin_inff();
  most.Store(lanes);
  for (float lane : lanes) largest = lane > largest ? lane : largest;
  for (; u < width; ++u) largest = row[u] > largest ? row[u] : largest;
  return largest;
}

// The first that equals `value`; -1: none does.
template <class V>
int32_t FirstOf(const float* row, int32_t width, float value) {
  int32_t at = 0;
  while (at < width && !(row[at] == value)) ++at;
  return at < width ? at : -1;
}

// A row of NaN alone gives 0.
template <class V>
void ArgMax(const RowSource& in, int32_t width, int32_t num_rows, const Int32Column& out) {
  for (int32_t r = 0; r < num_rows; ++r) {
    const float* const row = in.Row(r);
    const int32_t at = FirstOf<V>(row, width, LargestOf<V>(row, width));
    *out.Row(r) = at < 0 ? 0 : at;
  }
}

// Units [first_unit, first_unit + width) of a row, whose largest so far may come from before or behind them.
template <class V>
void TakeLargest(const float* row, int32_t first_unit, int32_t width, Largest& so_far) {
  const float largest = LargestOf<V>(row, width);
  if (largest < so_far.value) return;
  const bool earlier = so_far.unit >= 0 && so_far.unit < first_unit;
  if (earlier && largest == so_far.value) return;
  const int32_t at = FirstOf<V>(row, width, largest);
  if (at < 0) return;
  so_far.value = largest;
  so_far.unit = first_unit + at;
}

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_REDUCTIONS_INL_H_
