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
