// Row kernels without weights, for one Vec. Included only by the one file of each instruction set.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_REDUCTIONS_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_REDUCTIONS_INL_H_

#include <cstdint>

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

// The first of the largest. NaN is never larger; a row of NaN alone gives 0.
template <class V>
void ArgMax(const RowSource& in, int32_t width, int32_t num_rows, const Int32Column& out) {
  for (int32_t r = 0; r < num_rows; ++r) {
    const float* const row = in.Row(r);
    int32_t u = 0;
    V most = V::Broadcast(-__builtin_inff());
    for (; u + 16 <= width; u += 16) most = V::Max(V::Load(row + u), most);
    float lanes[16], largest = -__builtin_inff();
    most.Store(lanes);
    for (float lane : lanes) largest = lane > largest ? lane : largest;
    for (; u < width; ++u) largest = row[u] > largest ? row[u] : largest;
    int32_t at = 0;
    while (at < width && !(row[at] == largest)) ++at;
    *out.Row(r) = at < width ? at : 0;
  }
}

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_REDUCTIONS_INL_H_
