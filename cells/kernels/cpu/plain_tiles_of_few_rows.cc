#include "cells/kernels/cpu/plain_tiles_of_rows.h"
#include "cells/kernels/cpu/tiling.h"
#include "cells/kernels/cpu/vec_portable.h"

namespace cellbatch::kernels {

TileFunction PlainTileOfFewRows(int rows, int columns, int ahead) {
  return rows == 1   ? TilesOfRows<Vec, Avx512Tiling, Bf16Pairs, 1>::Find(columns, ahead)
         : rows == 2 ? TilesOfRows<Vec, Avx512Tiling, Bf16Pairs, 2>::Find(columns, ahead)
         : rows == 3 ? TilesOfRows<Vec, Avx512Tiling, Bf16Pairs, 3>::Find(columns, ahead)
                     : TilesOfRows<Vec, Avx512Tiling, Bf16Pairs, 4>::Find(columns, ahead);
}

}  // namespace cellbatch::kernels
