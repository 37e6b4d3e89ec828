// What each instruction set's registers hold: how many rows and columns of 16 sums a tile has, and how much of K it
// passes over at once. Plain numbers, apart from the kernels, so that tests can lay the same tiles in any arithmetic.
//
// A batch is cut into Blocks(rows) equal row blocks of at most kRows; kFullRows make the tile of most sums, which big
// batches are cut into. A block's columns are computed in passes of Columns(rows of the block); kBlock steps of K are
// passed over by every row block before the next kBlock (README.md has the sweep).
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TILING_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TILING_H_

#include "cells/kernels/cpu/product.h"

namespace cellbatch::kernels {
namespace {  // of each file that includes it: nothing built with special flags may be linked elsewhere

// 32 registers: 6 rows x 4 columns of sums, 4 weights, 1 input. Or 8 rows x 2 columns: fewer sums, but 16 rows then
// read their weights, most of which come from L2, twice and not three times. 3 columns are one pass of 8 rows, where two
// would be of 2 and of 1, which loads more than it multiplies; 5 columns are one pass of 5 rows.
struct Avx512Tiling {
  static constexpr int kRows = 8, kFullRows = 6;
  static constexpr int kBlock = 512;
  static constexpr int Columns(int rows) {
    return rows < kFullRows ? 5 : rows == kFullRows ? 4 : 3;
  }
  static constexpr int Blocks(int rows) {
    const int at_most = rows <= 2 * kRows ? kRows : kFullRows;
    return (rows + at_most - 1) / at_most;
  }
};

// 16 registers, two to a column: 6 rows x 1 column of sums, 1 weight, 1 input; fewer rows leave room for columns. (3 x 2
// would be one register too many: sums in memory cost more than a pass.)
struct Avx2Tiling {
  static constexpr int kRows = 6, kFullRows = 6;
  static constexpr int kBlock = 64;
  static constexpr int Columns(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }
  static constexpr int Blocks(int rows) { return (rows + kRows - 1) / kRows; }
};

// On a bare x86-64, four registers to a column: 2 rows x 1 column of sums, 1 weight, 1 input.
struct PortableTiling {
  static constexpr int kRows = 2, kFullRows = 2;
  static constexpr int kBlock = 64;
  static constexpr int Columns(int rows) { return rows == 1 ? 2 : 1; }
  static constexpr int Blocks(int rows) { return (rows + kRows - 1) / kRows; }
};

// Whether so few rows pass over the weights of so many columns exactly once: what Tuning is about.
template <class Tiling>
constexpr bool StreamsOnce(int rows, int columns) {
  return Tiling::Blocks(rows) == 1 && columns <= Tiling::Columns(rows);
}

// The most rows that do so with a panel of `columns` columns; 0: none do.
template <class Tiling>
constexpr int MostRowsStreamedOnce(int columns) {
  int most = 0;
  for (int rows = 1; rows <= Tiling::kRows; ++rows) {
    if (StreamsOnce<Tiling>(rows, columns)) most = rows;
  }
  return most;
}

}  // namespace
}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TILING_H_
