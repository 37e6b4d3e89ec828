#include "cells/kernels/cpu/plain_tiles_of_rows.h"
#include "cells/kernels/cpu/tiling.h"
#include "cells/kernels/cpu/vec_portable.h"

namespace cellbatch::kernels {

TileFunction PlainTileOfManyRows(int rows, int columns, int ahead) {
  static_assert(Avx512Tiling::kRows == 8);
  return rows == 7 ? TilesOfRows<Vec, Avx512Tiling, Bf16Pairs, 7>::Find(columns, ahead)
                   : TilesOfRows<Vec, Avx512Tiling, Bf16Pairs, 8>::Find(columns, ahead);
}

}  // namespace cellbatch::kernels
