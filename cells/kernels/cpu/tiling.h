// What each instruction set's registers hold: how many rows and columns of 16 sums a tile has, and how much of K it
// passes over at once. Plain numbers, apart from the kernels, so that tests can lay the same tiles in any arithmetic.
//
// A batch is cut into Blocks(rows) equal row blocks of at most kRows; kFullRows make the tile of most sums, which big
// batches are cut into. A block's columns are computed in passes of Columns(rows of the block); some steps of K are passed
// over by every row block before the next (README.md has the sweeps). kOrder: how columns lie. Up to PairRows(columns) rows, their sums in two
// panels fit beside each other. Where weights may be read in the spread way (kSpreads), batches are cut into
// SpreadBlocks(rows) for it, and at most kSpreadBlock steps of K (SpreadSteps); kAlwaysSpread rows and more know no other, but
// for that of short blocks, up to kMostShortRows.
// Usual(rows, columns, far) is how weights are read until Tuning knows better; far: they are so many that they come from
// memory.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TILING_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TILING_H_

#include <cstdint>

#include "cells/kernels/cpu/product.h"
#include "cells/kernels/cpu/stored_inl.h"

namespace cellbatch::kernels {
namespace {  // of each file that includes it: nothing built with special flags may be linked elsewhere

// 32 registers: 6 rows x 4 columns of sums, 4 weights, 1 input. Or 8 rows x 2 columns: fewer sums, but 16 rows then
// read their weights, most of which come from L2, twice and not three times. 3 columns are one pass of 8 rows, where two
// would be of 2 and of 1, which loads more than it multiplies; 5 columns are one pass of 5 rows.
struct Avx512Tiling {
  static constexpr WeightOrder kOrder = WeightOrder::kStepByStep;
  static constexpr int kRows = 8, kFullRows = 6;
  static constexpr bool kSpreads = true;
  static constexpr int kSpreadBlock = kMostBlockOfK, kAlwaysSpread = kRows + 1;
  static constexpr int kMostShortRows = 48;
  // One instruction more for 16 weights is an eighth of the multiply-adds of 8 rows, in each row block; to store floats and load
  // them again is more, until row blocks are many. (README.md has the sweep.)
  static constexpr int MostExpandedInTiles(int instructions) { return instructions == 1 ? 64 : 16; }
  static constexpr int Columns(int rows) {
    return rows < kFullRows ? 5 : rows == kFullRows ? 4 : 3;
  }
  static constexpr int Blocks(int rows) {
    const int at_most = rows <= 2 * kRows ? kRows : kFullRows;
    return (rows + at_most - 1) / at_most;
  }
  static constexpr int SpreadBlocks(int rows) { return rows <= kRows ? 2 : Blocks(rows); }
  static constexpr int SpreadSteps(int) { return kSpreadBlock; }
  // 24 sums at most, and few tiles.
  static constexpr int PairRows(int columns) { return columns < 4 ? 4 : columns == 4 ? 3 : 2; }
  // A step of k of 5 rows takes so long that prefetching keeps up with memory. With fewer it brings less than pairs, and
  // nothing where weights are near.
  static constexpr StreamWay Usual(int rows, int columns, bool far) {
    if (rows <= PairRows(columns)) return StreamWay::kPaired;
    return rows >= 5 || far ? StreamWay::kPrefetched : StreamWay::kUndisturbed;
  }
};

// 16 registers, two to a column: 6 rows x 1 column of sums, 1 weight, 1 input; fewer rows leave room for columns. So a pass
// reads one column of a panel, and columns lie one behind the other.
struct Avx2Tiling {
  static constexpr WeightOrder kOrder = WeightOrder::kColumnByColumn;
  static constexpr int kRows = 6, kFullRows = 6;
  static constexpr bool kSpreads = true;
  static constexpr int kSpreadBlock = 256, kAlwaysSpread = kChunkRows + 1;
  static constexpr int kMostShortRows = 0;  // its blocks are short as it is
  static constexpr int MostExpandedInTiles(int) { return 0; }
  static constexpr int Columns(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }
  static constexpr int Blocks(int rows) { return (rows + kRows - 1) / kRows; }
  static constexpr int SpreadBlocks(int rows) { return Blocks(rows); }
  static constexpr int SpreadSteps(int rows) { return rows <= 48 ? 128 : kSpreadBlock; }
  static constexpr int PairRows(int) { return 0; }
  // One row reads as many streams as there are columns. Short blocks are loaded and stored more often: only where memory is
  // what is waited for.
  static constexpr StreamWay Usual(int rows, int, bool far) {
    return rows == 1           ? StreamWay::kUndisturbed
           : far && rows <= 16 ? StreamWay::kPrefetched
                               : StreamWay::kSpread;
  }
};

// On a bare x86-64, four registers to a column: 2 rows x 1 column of sums, 1 weight, 1 input.
struct PortableTiling {
  static constexpr WeightOrder kOrder = WeightOrder::kStepByStep;
  static constexpr int kRows = 2, kFullRows = 2;
  static constexpr bool kSpreads = false;
  static constexpr int kSpreadBlock = 0, kAlwaysSpread = kChunkRows + 1;
  static constexpr int kMostShortRows = 0;
  static constexpr int MostExpandedInTiles(int) { return 0; }
  static constexpr int Columns(int rows) { return rows == 1 ? 2 : 1; }
  static constexpr int Blocks(int rows) { return (rows + kRows - 1) / kRows; }
  static constexpr int SpreadBlocks(int rows) { return Blocks(rows); }
  static constexpr int SpreadSteps(int) { return kSpreadBlock; }
  static constexpr int PairRows(int) { return 0; }
  static constexpr StreamWay Usual(int rows, int columns, bool) {
    return rows <= kRows && columns <= Columns(rows) ? StreamWay::kUndisturbed
                                                     : StreamWay::kPrefetched;
  }
};

template <class Tiling>
inline constexpr bool kApart = Tiling::kOrder == WeightOrder::kColumnByColumn;

// Of columns that lie apart several row blocks pass over one at a time, so rows are read as often as there are columns: they
// are packed first (packed_rows_inl.h), where a thread reads them for so many panels (kLeastPanelsToPackFor). Row blocks are
// equal, so of no fewer rows than these.
template <class Tiling>
inline constexpr int kLeastPackedRows = (Tiling::kRows + 1) / 2;

// Whether so few rows pass over the weights of so many columns exactly once, unless they are read in the spread way. (Where
// columns lie apart, what is one row block does, however many passes it is.)
template <class Tiling>
constexpr bool StreamsOnce(int rows, int columns) {
  return Tiling::Blocks(rows) == 1 && (kApart<Tiling> || columns <= Tiling::Columns(rows));
}

// Whether there is that way of reading panels whose segments have up to so many columns. One at least there is.
template <class Tiling>
constexpr bool HasWay(StreamWay way, int rows, int columns) {
  const bool once = StreamsOnce<Tiling>(rows, columns);
  switch (way) {
    case StreamWay::kUsual:
      return false;
    case StreamWay::kUndisturbed:
      return once || (Tiling::kSpreads && rows > 1 && rows <= Tiling::kRows);
    case StreamWay::kPaired:
      return once && rows <= Tiling::PairRows(columns);
    case StreamWay::kPrefetched:
      return rows < Tiling::kAlwaysSpread;
    case StreamWay::kSpread:
      return Tiling::kSpreads && rows > 1;
    case StreamWay::kShort:
      return rows >= Tiling::kAlwaysSpread && rows <= Tiling::kMostShortRows;
  }
  return false;
}

// How they are read, asked to be read in a way that there may not be.
template <class Tiling>
constexpr StreamWay WayOf(StreamWay asked, int rows, int columns, bool far) {
  if (HasWay<Tiling>(asked, rows, columns)) return asked;
  if (rows >= Tiling::kAlwaysSpread) return StreamWay::kSpread;
  if (asked == StreamWay::kPaired && StreamsOnce<Tiling>(rows, columns)) {
    return StreamWay::kUndisturbed;
  }
  return Tiling::Usual(rows, columns, far);
}

// How many ways there are; bit i: that of number i.
template <class Tiling>
constexpr uint32_t WaysOf(int rows, int columns) {
  uint32_t ways = 0;
  for (int way = 0; way < kNumWays; ++way) {
    if (HasWay<Tiling>(static_cast<StreamWay>(way), rows, columns)) ways |= 1u << way;
  }
  return ways;
}

// Instead of a number of lines prefetched a step of k: each line of the same columns, prefetched kNearFloats ahead.
inline constexpr int kNear = kMaxColumns + 1;
inline constexpr int kNearBytes = 16384, kLineBytes = 64;
// Or one line every second or fourth step: a prefetch from a slow L3 holds one of the core's few line buffers all the while,
// which the weights that come from L2 want too.
inline constexpr int kEverySecond = kNear + 1, kEveryFourth = kNear + 2, kWaysAhead = kNear + 3;
// What row blocks pass over at once in K if it is not the spread way: it stays in L1 beside what is prefetched there; or more,
// where the next block is prefetched to L2.
inline constexpr int kShortBlock = 64, kShortSpreadBlock = 96;

// Of rows that do not pass over the weights once.
template <class Tiling>
constexpr int RowBlocks(StreamWay way, int rows) {
  const bool apart = way == StreamWay::kSpread || way == StreamWay::kUndisturbed;
  return apart ? Tiling::SpreadBlocks(rows) : Tiling::Blocks(rows);
}
template <class Tiling>
constexpr int BlockOfK(StreamWay way, int rows) {
  return way == StreamWay::kSpread  ? Tiling::SpreadSteps(rows)
         : way == StreamWay::kShort ? kShortSpreadBlock
                                    : kShortBlock;
}

// After how many steps of k a tile prefetches one line; 1: a number of lines after each.
constexpr int StepsALine(int ahead) {
  return ahead == kEverySecond ? 2 : ahead == kEveryFourth ? 4 : 1;
}
// How many lines it prefetches in so many steps, if they are not near.
constexpr int64_t LinesIn(int depth, int ahead) {
  return StepsALine(ahead) > 1 ? depth / 4 * (4 / StepsALine(ahead)) : int64_t{depth} * ahead;
}

// Cache lines prefetched a step of k, of one row block of several passes or among several: of the next long block
// as evenly as whole lines in one, two or four steps allow. Short ones leave room in L1: the first row block prefetches the
// next one there, or all prefetch every second line of it.
constexpr int LinesAhead(StreamWay way, int columns, int row_blocks, int row_block) {
  if (way == StreamWay::kUndisturbed) return 0;
  if (way == StreamWay::kPrefetched) return row_block == 0 ? kNear : 0;
  const int lines = way == StreamWay::kShort ? (columns + 1) / 2 : columns;
  for (const int ahead : {kEveryFourth, kEverySecond}) {
    const int blocks = lines * StepsALine(ahead);
    if (row_blocks >= blocks) return row_block < blocks ? ahead : 0;
  }
  const int share = (lines + row_blocks - 1) / row_blocks, left = lines - share * row_block;
  return left < 0 ? 0 : left < share ? left : share;
}
// How many floats a prefetched line is from the one before.
constexpr int64_t LineStep(StreamWay way) {
  return way == StreamWay::kShort ? 2 * kLanes : int64_t{kLanes};
}
// Part i of n equal parts (to within one) of `total`: where it starts.
constexpr int PartStart(int total, int n, int i) {
  return static_cast<int>(int64_t{total} * i / n);
}

// One after the other, the parts of `total` that PartStart tells: without a division for each.
class Parts {
 public:
  Parts(int total, int n) : n_(n), least_(total / n), over_(total % n) {}
  // Of the next part, how many.
  int Next() {
    owed_ += over_;
    const bool more = owed_ >= n_;
    if (more) owed_ -= n_;
    return least_ + (more ? 1 : 0);
  }

 private:
  int n_, least_, over_, owed_ = 0;
};

// Which tiles over weights step by step some batch of at most so many rows meets, be it in short blocks or not: by rows, columns,
// and what is prefetched. No others are compiled.
template <class Tiling>
struct MetTiles {
  bool met[kMostBlockRows + 1][kMaxColumns + 1][kWaysAhead] = {};

  constexpr MetTiles(int most_rows, bool in_short_blocks) {
    for (int columns = 1; columns <= kMaxColumns; ++columns) {
      for (int rows = 1; rows <= most_rows; ++rows) {
        if (kApart<Tiling>) continue;  // one tile by rows and columns (ApartTile)
        const bool once = StreamsOnce<Tiling>(rows, columns);
        if (once) met[rows][columns][0] = true;
        for (const StreamWay way : {StreamWay::kUndisturbed, StreamWay::kPrefetched,
                                    StreamWay::kSpread, StreamWay::kShort}) {
          const bool whole = once && way == StreamWay::kUndisturbed;
          if (way == StreamWay::kShort && !in_short_blocks) continue;
          if (!whole && HasWay<Tiling>(way, rows, columns)) Meet(way, rows, columns);
        }
      }
    }
  }
  constexpr bool MeetsAny(int rows, int columns) const {
    for (const bool ahead : met[rows][columns]) {
      if (ahead) return true;
    }
    return false;
  }
  constexpr void Meet(StreamWay way, int rows, int columns) {
    const int blocks = RowBlocks<Tiling>(way, rows);
    for (int b = 0; b < blocks; ++b) {
      const int of_block = PartStart(rows, blocks, b + 1) - PartStart(rows, blocks, b);
      met[of_block][columns][LinesAhead(way, columns, blocks, b)] = true;
    }
  }
};
template <class Tiling, int kMostRows, bool kInShortBlocks>
constexpr MetTiles<Tiling> kMetTiles = MetTiles<Tiling>(kMostRows, kInShortBlocks);

// Up to how many rows tiles pass over the weights as they are stored, whatever the way: over floats always. Over others where so
// few row blocks meet them that expanding them in registers once for each costs less than storing them as floats. (What passes
// by once is never expanded first.)
template <class Tiling, class S>
constexpr int MostMeetingStored() {
  if constexpr (kStoredAsFloats<S>) {
    return kChunkRows;
  } else {
    return Tiling::MostExpandedInTiles(S::kInstructionsToExpand);
  }
}
template <class Tiling, class S>
constexpr bool MeetsStored(int rows) {
  return rows <= MostMeetingStored<Tiling, S>();
}

// Whether a step of a column is a line, as of floats: what tiles count that prefetch lines of the next block.
template <class S>
inline constexpr bool kLineAStep = kColumnStep<S> * sizeof(typename S::Number) == kLineBytes;

// Whether a tile over weights as they are stored is met.
template <class Tiling, class S>
constexpr bool IsLaid(int rows, int columns, int ahead) {
  if (StreamsOnce<Tiling>(rows, columns) && (ahead == 0 || ahead == kNear)) {
    return kMetTiles<Tiling, kMostBlockRows, false>.met[rows][columns][ahead];
  }
  constexpr int kMostRows = MostMeetingStored<Tiling, S>();
  constexpr const MetTiles<Tiling>& kMet = kMetTiles<Tiling, kMostRows, kStoredAsFloats<S>>;
  return kLineAStep<S> ? kMet.met[rows][columns][ahead]
                       : ahead == 0 && kMet.MeetsAny(rows, columns);
}

}  // namespace
}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TILING_H_
