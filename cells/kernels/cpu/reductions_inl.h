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

// What an element, or a register of them, becomes before it is added up: itself, or the square of what it is above `less`,
// each operation rounded. (Of a V like all that is here, so that each instruction set has its own.)
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

// Eight chains of additions: element i belongs to chain i % 8. They lie in whole registers of the instruction set; of vectors
// wider than those, GCC 12 keeps every addition's operands and sums in memory.
template <class V>
class Chains {
 public:
  template <class Of>
  [[gnu::always_inline]] void AddEight(const float* x, Of of) {
    for (int k = 0; k < 8 / kHeld; ++k) {
      typename V::HalfFloats floats;
      __builtin_memcpy(&floats, x + k * kHeld, sizeof floats);
      of(floats);
      sums_[k] += V::Widened(floats);
    }
  }
  // The sum of them all, and of the `count` elements that are no whole eight.
  template <class Of>
  [[gnu::always_inline]] double SumWith(const float* rest, int32_t count, Of of) const {
    double sums[8];
    __builtin_memcpy(sums, sums_, sizeof sums);
    const auto chain = [&](int32_t i) {
      const double sum = sums[i];
      if (i >= count) return sum;
      float x = rest[i];
      of(x);
      return sum + static_cast<double>(x);
    };
    return ((chain(0) + chain(1)) + (chain(2) + chain(3))) +
           ((chain(4) + chain(5)) + (chain(6) + chain(7)));
  }

 private:
  static constexpr int kHeld = sizeof(typename V::Doubles) / sizeof(double);

  typename V::Doubles sums_[8 / kHeld] = {};
};

// `of_row(r)`: what is added up of row r's elements. Four rows at once, because each has one chain of additions a lane to
// wait for.
template <class V, class OfRow>
[[gnu::always_inline]] inline void SumOfRows(const RowSource& in, OfRow of_row, int32_t width,
                                             double divisor, int32_t num_rows,
                                             const RowColumn& out) {
  const int32_t whole = width / 8 * 8, rest = width - whole;
  const auto finish = [&](const Chains<V>& sums, int32_t r) {
    const double sum = sums.SumWith(in.Row(r) + whole, rest, of_row(r));
    *out.Row(r) = static_cast<float>(sum / divisor);
  };
  int32_t r = 0;
  for (; r + 4 <= num_rows; r += 4) {
    const float *x0 = in.Row(r), *x1 = in.Row(r + 1), *x2 = in.Row(r + 2), *x3 = in.Row(r + 3);
    const auto of0 = of_row(r), of1 = of_row(r + 1), of2 = of_row(r + 2), of3 = of_row(r + 3);
    Chains<V> s0, s1, s2, s3;
    for (int32_t i = 0; i < whole; i += 8) {
      s0.AddEight(x0 + i, of0);
      s1.AddEight(x1 + i, of1);
      s2.AddEight(x2 + i, of2);
      s3.AddEight(x3 + i, of3);
    }
    finish(s0, r);
    finish(s1, r + 1);
    finish(s2, r + 2);
    finish(s3, r + 3);
  }
  for (; r < num_rows; ++r) {
    const float* const x = in.Row(r);
    const auto of = of_row(r);
    Chains<V> sums;
    for (int32_t i = 0; i < whole; i += 8) sums.AddEight(x + i, of);
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
