// What each instruction set's registers hold: how many rows and columns of 16 sums a tile has, and how much of K it
// passes over at once. Plain numbers, apart from the kernels, so that tests can lay the same tiles in any arithmetic.
//
// A batch is cut into Blocks(rows) equal row blocks of at most kRows; kFullRows make the tile of most sums, which big
// batches are cut into. A block's columns are computed in passes of Columns(rows of the block); kBlock steps of K are
// passed over by every row block before the next kBlock (README.md has the sweep). Up to PairRows(columns) rows, their
// sums in two panels fit beside each other. Usual(rows) is how weights that are read once are read until Tuning knows
// better.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TILING_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TILING_H_

#include <cstdint>

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
  // 24 sums at most, and few tiles.
  static constexpr int PairRows(int columns) { return columns < 4 ? 4 : columns == 4 ? 3 : 2; }
  // A step of k of more rows takes so long that prefetching keeps up with memory.
  static constexpr StreamWay Usual(int rows) {
    return rows <= 4 ? StreamWay::kPaired : StreamWay::kPrefetched;
  }
};

// 16 registers, two to a column: 6 rows x 1 column of sums, 1 weight, 1 input; fewer rows leave room for columns. (3 x 2
// would be one register too many: sums in memory cost more than a pass.)
struct Avx2Tiling {
  static constexpr int kRows = 6, kFullRows = 6;
  static constexpr int kBlock = 64;
  static constexpr int Columns(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }
  static constexpr int Blocks(int rows) { return (rows + kRows - 1) / kRows; }
  static constexpr int PairRows(int) { return 0; }
  static constexpr StreamWay Usual(int) { return StreamWay::kUndisturbed; }
};

// On a bare x86-64, four registers to a column: 2 rows x 1 column of sums, 1 weight, 1 input.
struct PortableTiling {
  static constexpr int kRows = 2, kFullRows = 2;
  static constexpr int kBlock = 64;
  static constexpr int Columns(int rows) { return rows == 1 ? 2 : 1; }
  static constexpr int Blocks(int rows) { return (rows + kRows - 1) / kRows; }
  static constexpr int PairRows(int) { return 0; }
  static constexpr StreamWay Usual(int) { return StreamWay::kUndisturbed; }
};

// Whether so few rows pass over the weights of so many columns exactly once: what Tuning is about.
template <class Tiling>
constexpr bool StreamsOnce(int rows, int columns) {
  return Tiling::Blocks(rows) == 1 && columns <= Tiling::Columns(rows);
}

// How `rows` rows pass over panels whose segments have up to `columns` columns: kUndisturbed where there is no choice.
template <class Tiling>
constexpr StreamWay WayOf(StreamWay asked, int rows, int columns) {
  if (!StreamsOnce<Tiling>(rows, columns)) return StreamWay::kUndisturbed;
  const StreamWay way = asked == StreamWay::kUsual ? Tiling::Usual(rows) : asked;
  const bool fits = rows <= Tiling::PairRows(columns);
  return way == StreamWay::kPaired && !fits ? StreamWay::kUndisturbed : way;
}

// The most rows that pass over a panel of `columns` columns once; 0: none do.
template <class Tiling>
constexpr int MostRowsStreamedOnce(int columns) {
  int most = 0;
  for (int rows = 1; rows <= Tiling::kRows; ++rows) {
    if (StreamsOnce<Tiling>(rows, columns)) most = rows;
  }
  return most;
}

// Cache lines prefetched a step of k, of one row block among several: whole lines, as evenly as they allow.
constexpr int LinesAhead(int columns, int row_blocks, int row_block) {
  const int share = (columns + row_blocks - 1) / row_blocks, left = columns - share * row_block;
  return left < 0 ? 0 : left < share ? left : share;
}
// Instead of such a number: every line of the same panel, prefetched kNearFloats ahead.
inline constexpr int kNear = kMaxColumns + 1;
inline constexpr int kNearFloats = 4096;

// Part i of n equal parts (to within one) of `total`: where it starts.
constexpr int PartStart(int total, int n, int i) {
  return static_cast<int>(int64_t{total} * i / n);
}

// Which tiles some batch meets: by rows, columns, and lines ahead or kNear. No others are compiled.
template <class Tiling>
struct MetTiles {
  bool met[kMostBlockRows + 1][kMaxColumns + 1][kNear + 1] = {};

  constexpr MetTiles() {
    for (int columns = 1; columns <= kMaxColumns; ++columns) {
      for (int rows = 1; rows <= kChunkRows; ++rows) {
        const bool once = StreamsOnce<Tiling>(rows, columns);
        if (once) met[rows][columns][0] = met[rows][columns][kNear] = true;
        const int blocks = Tiling::Blocks(rows);
        for (int b = 0; b < blocks && !once; ++b) {
          const int of_block = PartStart(rows, blocks, b + 1) - PartStart(rows, blocks, b);
          met[of_block][columns][LinesAhead(columns, blocks, b)] = true;
        }
      }
    }
  }
};
template <class Tiling>
constexpr MetTiles<Tiling> kMetTiles = {};

}  // namespace
}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TILING_H_
