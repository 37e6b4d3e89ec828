// What each instruction set's registers hold: how many rows and columns of 16 sums a tile has, and how much of K it
// passes over at once. Plain numbers, apart from the kernels, so that tests can lay the same tiles in any arithmetic.
//
// A batch is cut into Blocks(rows) equal row blocks of at most kRows; kFullRows make the tile of most sums, which big
// batches are cut into. A block's columns are computed in passes of Columns(rows of the block); kBlock steps of K are
// passed over by every row block before the next kBlock (README.md has the sweep). Up to PairRows(columns) rows, their
// sums in two panels fit beside each other. Usual(rows, columns, far) is how weights that are read once are read until
// Tuning knows better; far: they are so many that they come from memory.
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
  static constexpr int kBlock = kMostBlockOfK;
  static constexpr int Columns(int rows) {
    return rows < kFullRows ? 5 : rows == kFullRows ? 4 : 3;
  }
  static constexpr int Blocks(int rows) {
    const int at_most = rows <= 2 * kRows ? kRows : kFullRows;
    return (rows + at_most - 1) / at_most;
  }
  // 24 sums at most, and few tiles.
  static constexpr int PairRows(int columns) { return columns < 4 ? 4 : columns == 4 ? 3 : 2; }
  // A step of k of 5 rows takes so long that prefetching keeps up with memory. With fewer it brings less than pairs, and
  // nothing where weights are near.
  static constexpr StreamWay Usual(int rows, int columns, bool far) {
    if (rows <= PairRows(columns)) return StreamWay::kPaired;
    return rows >= 5 || far ? StreamWay::kPrefetched : StreamWay::kUndisturbed;
  }
};

// 16 registers, two to a column: 6 rows x 1 column of sums, 1 weight, 1 input; fewer rows leave room for columns. (3 x 2
// would be one register too many: sums in memory cost more than a pass.)
struct Avx2Tiling {
  static constexpr int kRows = 6, kFullRows = 6;
  static constexpr int kBlock = 64;
  static constexpr int Columns(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }
  static constexpr int Blocks(int rows) { return (rows + kRows - 1) / kRows; }
  // Of four columns 16 sums, and some of them in memory: still less time than one stream takes.
  static constexpr int PairRows(int columns) { return columns <= 4 ? 1 : 0; }
  static constexpr StreamWay Usual(int rows, int columns, bool) {
    return rows <= PairRows(columns) ? StreamWay::kPaired : StreamWay::kPrefetched;
  }
};

// On a bare x86-64, four registers to a column: 2 rows x 1 column of sums, 1 weight, 1 input.
struct PortableTiling {
  static constexpr int kRows = 2, kFullRows = 2;
  static constexpr int kBlock = 64;
  static constexpr int Columns(int rows) { return rows == 1 ? 2 : 1; }
  static constexpr int Blocks(int rows) { return (rows + kRows - 1) / kRows; }
  static constexpr int PairRows(int) { return 0; }
  static constexpr StreamWay Usual(int, int, bool) { return StreamWay::kUndisturbed; }
};

// Whether so few rows pass over the weights of so many columns exactly once: what Tuning is about.
template <class Tiling>
constexpr bool StreamsOnce(int rows, int columns) {
  return Tiling::Blocks(rows) == 1 && columns <= Tiling::Columns(rows);
}

// How `rows` rows pass over panels whose segments have up to `columns` columns: kUndisturbed where there is no choice.
template <class Tiling>
constexpr StreamWay WayOf(StreamWay asked, int rows, int columns, bool far) {
  if (!StreamsOnce<Tiling>(rows, columns)) return StreamWay::kUndisturbed;
  const StreamWay way = asked == StreamWay::kUsual ? Tiling::Usual(rows, columns, far) : asked;
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

// Instead of a number of lines prefetched a step of k: each line of the same columns, prefetched kNearFloats ahead.
inline constexpr int kNear = kMaxColumns + 1;
inline constexpr int kNearBytes = 16384, kLineBytes = 64;
// What a row block that is alone passes over at once in K, if in several passes: it stays in L1 beside what is prefetched.
inline constexpr int kLoneBlock = 64;

// Cache lines prefetched a step of k, of one row block among several: whole lines, as evenly as they allow. Where blocks
// of K are so small that L1 holds the next one, the first row block prefetches it there.
template <class Tiling>
constexpr int LinesAhead(int columns, int row_blocks, int row_block) {
  if (Tiling::kBlock <= kLoneBlock) return row_block == 0 ? kNear : 0;
  const int share = (columns + row_blocks - 1) / row_blocks, left = columns - share * row_block;
  return left < 0 ? 0 : left < share ? left : share;
}
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
        const int blocks = Tiling::Blocks(rows);
        if (blocks == 1) met[rows][columns][kNear] = true;
        if (StreamsOnce<Tiling>(rows, columns)) met[rows][columns][0] = true;
        for (int b = 0; b < blocks && blocks > 1; ++b) {
          const int of_block = PartStart(rows, blocks, b + 1) - PartStart(rows, blocks, b);
          met[of_block][columns][LinesAhead<Tiling>(columns, blocks, b)] = true;
        }
      }
    }
  }
};
template <class Tiling>
constexpr MetTiles<Tiling> kMetTiles = {};

// Whether a tile over weights as they are stored is met: over any but floats only those that pass by once.
template <class Tiling, class S>
constexpr bool IsLaid(int rows, int columns, int ahead) {
  if (!kMetTiles<Tiling>.met[rows][columns][ahead]) return false;
  const bool once = StreamsOnce<Tiling>(rows, columns) && (ahead == 0 || ahead == kNear);
  return sizeof(typename S::Number) == sizeof(float) || once;
}

}  // namespace
}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TILING_H_
