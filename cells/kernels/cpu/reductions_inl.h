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
  [[gnu::always_inline]] T operator()(T x) const {
    return x;
  }
};
template <class V>
struct SquareAbove {
  explicit SquareAbove(float below) : less(below), each(V::Broadcast(below)) {}
  [[gnu::always_inline]] V operator()(V x) const {
    const V above = x - each;
    return above * above;
  }
  [[gnu::always_inline]] float operator()(float x) const {
    const float above = x - less;
    return above * above;
  }
  float less;
  V each;
};

// Sixteen chains of additions, of doubles: element i belongs to chain i % 16. Of 256 elements that follow each other the
// sixteen of a chain are added up as floats first, two and two, and of 64 that are left the four: converting is what such a
// sum waits for.
template <class V>
class Chains {
 public:
  [[gnu::always_inline]] void Add(V x) { V::AddWidened(x, sums_); }
  // The sum of them all, and of the `count` < 16 elements that are no whole register.
  template <class Of>
  [[gnu::always_inline]] double SumWith(const float* rest, int32_t count, Of of) {
    if (count > 0) AddRest(rest, count, of);
    double s[8];
    for (int k = 0; k < kHalf; ++k) {
      const typename V::Doubles two = sums_[k] + sums_[k + kHalf];
      __builtin_memcpy(s + 8 / kHalf * k, &two, sizeof two);
    }
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
  }

 private:
  static constexpr int kHalf =
      8 * sizeof(double) / sizeof(typename V::Doubles);  // of the registers

  template <class Of>
  void AddRest(const float* rest, int32_t count, Of of) {
    double sums[16];
    __builtin_memcpy(sums, sums_, sizeof sums);
    for (int32_t i = 0; i < count; ++i) sums[i] += static_cast<double>(of(rest[i]));
    __builtin_memcpy(sums_, sums, sizeof sums);
  }

  typename V::Doubles sums_[2 * kHalf] = {};
};

// `of_row(r)`: what is added up of row r's elements.
template <class V, class OfRow>
[[gnu::always_inline]] inline void SumOfRows(const RowSource& in, OfRow of_row, int32_t width,
                                             double divisor, int32_t num_rows,
                                             const RowColumn& out) {
  for (int32_t r = 0; r < num_rows; ++r) {
    const float* const x = in.Row(r);
    const auto of = of_row(r);
    const auto one = [&](int32_t i) __attribute__((always_inline)) { return of(V::Load(x + i)); };
    const auto four = [&](int32_t i) __attribute__((always_inline)) {
      return (one(i) + one(i + 16)) + (one(i + 32) + one(i + 48));
    };
    Chains<V> sums;
    int32_t i = 0;
    for (; i + 256 <= width; i += 256) {
      sums.Add((four(i) + four(i + 64)) + (four(i + 128) + four(i + 192)));
    }
    for (; i + 64 <= width; i += 64) sums.Add(four(i));
    for (; i + 16 <= width; i += 16) sums.Add(one(i));
    *out.Row(r) = static_cast<float>(sums.SumWith(x + i, width - i, of) / divisor);
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
    return SquareAbove<V>(less.base == nullptr ? 0.0f : *less.Row(r));
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
