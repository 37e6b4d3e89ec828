// The tiles of AVX-512's tiling in plain arithmetic, over pairs of bf16: for tests. They are so many that a file of all
// compiles for minutes; some numbers of rows each have a file of their own.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_PLAIN_TILES_OF_ROWS_H_
#define CELLBATCH_CELLS_KERNELS_CPU_PLAIN_TILES_OF_ROWS_H_

#include "cells/kernels/cpu/tile_inl.h"

namespace cellbatch::kernels {

// As TilesOfRows::Find says; of up to 4 rows, 5, 6, 7 and 8.
TileFunction PlainTileOfFewRows(int rows, int columns, int ahead);
TileFunction PlainTileOf5Rows(int columns, int ahead);
TileFunction PlainTileOf6Rows(int columns, int ahead);
TileFunction PlainTileOfManyRows(int rows, int columns, int ahead);

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_PLAIN_TILES_OF_ROWS_H_
