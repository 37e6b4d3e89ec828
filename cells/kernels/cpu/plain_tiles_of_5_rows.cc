#include "cells/kernels/cpu/plain_tiles_of_rows.h"
#include "cells/kernels/cpu/tiling.h"
#include "cells/kernels/cpu/vec_portable.h"

namespace cellbatch::kernels {

TileFunction PlainTileOf5Rows(int columns, int ahead) {
  return TilesOfRows<Vec, Avx512Tiling, Bf16Pairs, 5>::Find(columns, ahead);
}

}  // namespace cellbatch::kernels
