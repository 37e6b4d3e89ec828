#include "cells/kernels/cpu/plain_pairs_inl.h"
#include "cells/kernels/cpu/plain_tiles_of_rows.h"

namespace cellbatch::kernels {
namespace {

// The same tiles, out of other files.
struct Elsewhere : Avx512Tiling {};

}  // namespace

template <class V, class S, int R>
struct TilesOfRows<V, Elsewhere, S, R> : TilesOfRows<V, Avx512Tiling, S, R> {
  static TileFunction Find(int columns, int ahead) {
    if constexpr (R <= 4) return PlainTileOfFewRows(R, columns, ahead);
    if constexpr (R == 5) return PlainTileOf5Rows(columns, ahead);
    if constexpr (R == 6) return PlainTileOf6Rows(columns, ahead);
    return PlainTileOfManyRows(R, columns, ahead);
  }
};

CpuKernels PlainAvx512Pairs() { return PlainPairs<Elsewhere>("plain_avx512_pairs"); }

}  // namespace cellbatch::kernels
