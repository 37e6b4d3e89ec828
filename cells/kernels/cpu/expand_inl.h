// Blocks of weights that are stored in less than fp32, as floats. Included only by the one file of each instruction set.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_EXPAND_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_EXPAND_INL_H_

#include <cstdint>

#include "cells/kernels/cpu/stored_inl.h"
#include "cells/kernels/cpu/tile_inl.h"
#include "cells/kernels/cpu/tiling.h"

namespace cellbatch::kernels {

// `steps` steps of so many columns as floats, [steps of k][columns][16]. Meanwhile what follows in memory is prefetched, if
// nobody else will.
template <class V, class S, bool kPrefetches>
void ExpandBlock(const typename S::Number* from, int steps, int columns, float* to) {
  constexpr int kColumnsOfLine = kLineBytes / kColumnStep<S> / static_cast<int>(sizeof(*from));
  const auto* const next = from + int64_t{steps} * columns * kColumnStep<S>;
  // Where a step is of one k, the order is that of the floats: one long loop.
  const int passes = S::kDepth == 1 ? 1 : steps, width = S::kDepth == 1 ? steps * columns : columns;
  for (int64_t pass = 0, i = 0; pass < passes; ++pass) {
    for (int column = 0; column < width; ++column, ++i) {
      if (kPrefetches && i % kColumnsOfLine == 0) {
        __builtin_prefetch(next + i * kColumnStep<S>, 0, 2);
      }
      Unrolled<S::kDepth>([&](auto d) __attribute__((always_inline)) {
        S::template Load<V, d>(from + i * kColumnStep<S>)
            .Store(to + ((pass * S::kDepth + d) * width + column) * kLanes);
      });
    }
  }
}

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_EXPAND_INL_H_
