// Products of bf16 by tile registers of 16 rows x 16 words (AMX), over the pairs that dot products read. Included only by
// files that have such registers: Tiles is the CPU's own (amx_tiles.h), or a test's in plain arithmetic.
//
//   rows of pairs            weights, step by step               sums, where they lie
//   A [rows][16 pairs]   x   B [16 pairs][16 units of 2]    +=   C [rows][16 units]
//   (rows follow each        (a column's lines, `columns`        (rows stride apart)
//    other, or a copy)        of them apart)
//
// A multiplication of tiles takes 32 of K: for every sum it adds up the first of each pair and the second of each, from 0,
// and then both to the sum (TDPBF16PS). So a sum depends on where K is cut, which is every 32 from a segment's start and
// nowhere else: bits are the same for any batch, block and split of rows, and differ from those of instructions that add
// pair after pair. What adds zeros adds one +0.
//
// Batches are cut in equal row blocks of at most 16. One of them meets up to four columns at a time; where a pass has but one or
// two, two row blocks do:
//
//   C0 C1 C2 C3 += A4 x B6, B7, B6, B7       C0 C1 += A4 x B6, B7    C2 C3 += A5 x B6, B7
//
// Blocks of 256 of K are passed over by all row blocks while they lie in L1. Meanwhile every second line of the next one is
// prefetched to L2, which brings the one beside it, unless the weights are so few that they stay there. What tiles wait for is
// lines that come from L2 to L1: a row block's inputs, which four columns at once read once, and its sums (README.md).
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TILED_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TILED_INL_H_

#include <cstdint>
#include <type_traits>

#include "cells/kernels/cpu/product.h"
#include "cells/kernels/cpu/tile_inl.h"
#include "cells/kernels/cpu/tile_shapes.h"

namespace cellbatch::kernels {

inline constexpr int kBlockTiles = 8;  // in K, of what takes two bytes a weight

// One segment of a panel, of all rows of a chunk.
struct TiledArgs {
  // One pointer a row: its pairs, a word each; of split rows all upper parts, then all lower ones.
  const float* const* x;
  int64_t x_stride;  // words from one row to the next; 0: they lie anywhere
  int rows;
  int pairs;          // of a row
  const float* w;     // [pairs][columns][16 words]; of split weights [pairs][2][columns][16]
  const float* next;  // what is read after them; null: what lies behind them
  int columns;
  float* sums;  // row r, column c: sums + r * sums_stride + column[c]
  int64_t sums_stride;
  const int32_t* column;
  // What every row's sums start from, column c at start_column[c]; null: from what they are.
  const float* start;
  const int32_t* start_column;
  bool near;  // the weights lie in L2
};

// kParts: 1, or 2 where every number is the sum of two of bf16 and all but the product of the smaller ones is added up: upper
// parts with upper ones, upper inputs with lower weights, lower inputs with upper weights.
template <class Tiles, int kParts>
class TiledRun {
 public:
  void Add(const TiledArgs& args) {
    t_ = &args;
    row_blocks_ = (args.rows + kTileRows - 1) / kTileRows;
    passes_ = (args.columns + kAtOnce - 1) / kAtOnce;
    lines_ahead_ = args.near ? 0 : LinesAhead();
    const int whole = args.pairs / kTileWords, rest = args.pairs % kTileWords;
    const int most = row_blocks_ == 1 && passes_ == 1 ? whole : kTilesOfBlock;
    for (int tile = 0; tile < whole; tile += most) {
      AddBlock(tile * kTileWords, kTileWords, whole - tile < most ? whole - tile : most);
    }
    if (rest > 0) AddBlock(whole * kTileWords, rest, 1);
  }

 private:
  // Columns of a pass. (Split rows are loaded twice for the same weights: measured, two are faster than four.)
  static constexpr int kAtOnce = kParts == 1 ? 4 : 2;

  int PassStart(int pass) const { return PartStart(t_->columns, passes_, pass); }
  int RowStart(int block) const { return PartStart(t_->rows, row_blocks_, block); }
  // How many row blocks meet so many columns.
  int BlocksAtOnce(int columns) const { return columns <= 2 && row_blocks_ > 1 ? 2 : 1; }

  // In every step of K of every meeting, so that all of them together prefetch a block.
  int LinesAhead() const {
    int meetings = 0;
    for (int pass = 0; pass < passes_; ++pass) {
      const int blocks = BlocksAtOnce(PassStart(pass + 1) - PassStart(pass));
      meetings += (row_blocks_ + blocks - 1) / blocks;
    }
    return (kTileWords * kParts * t_->columns + meetings - 1) / meetings;
  }

  // `tiles` of so many pairs, from that pair of the segment.
  void AddBlock(int first_pair, int pairs, int tiles) {
    first_pair_ = first_pair;
    pairs_ = pairs;
    tiles_of_block_ = tiles;
    const int next_pair = first_pair + kTilesOfBlock * kTileWords;
    const bool beyond = t_->next != nullptr && next_pair >= t_->pairs;
    ahead_ = beyond ? t_->next : Line(next_pair, 0);
    for (int pass = 0; pass < passes_; ++pass) {
      const int first = PassStart(pass), columns = PassStart(pass + 1) - first;
      const int at_once = BlocksAtOnce(columns);
      for (int block = 0; block < row_blocks_; block += at_once) {
        const int r0 = RowStart(block), r1 = RowStart(block + 1);
        const bool two = at_once == 2 && block + 1 < row_blocks_;
        const int end = two ? RowStart(block + 2) : r1;
        tiles_.Shape({r1 - r0, two ? end - r1 : r1 - r0, pairs});
        Meet(two, r0, r1, first, columns);
      }
    }
  }

  void Meet(bool two, int r0, int r1, int first, int columns) {
    if (two && columns == 2) return MeetBlocks<2, 2>(r0, r1, first);
    if (two) return MeetBlocks<2, 1>(r0, r1, first);
    switch (columns) {
      case 1:
        return MeetBlocks<1, 1>(r0, r1, first);
      case 2:
        return MeetBlocks<1, 2>(r0, r1, first);
      case 3:
        return MeetBlocks<1, 3>(r0, r1, first);
      default:
        return MeetBlocks<1, 4>(r0, r1, first);
    }
  }

  // R row blocks, which start at rows r0 and r1, and C columns from `first` on.
  template <int R, int C>
  void MeetBlocks(int r0, int r1, int first) {
    const TiledArgs t = *t_;  // the loop's own: tiles may have written any memory
    const int64_t sums_bytes = t.sums_stride * kWord;
    const int64_t line_bytes = int64_t{kParts} * t.columns * kLineBytes;
    const int64_t x_bytes = t.x_stride * kWord;
    const int tiles = tiles_of_block_, lines_ahead = lines_ahead_;
    const float* ahead = ahead_;
    const float* w = Line(first_pair_, first);
    const bool starts = t.start != nullptr && first_pair_ == 0;
    Unrolled<R>([&](auto r) __attribute__((always_inline)) {
      Unrolled<C>([&](auto c) __attribute__((always_inline)) {
        if (starts) {
          tiles_.template Load<r * 2 + c>(t.start + t.start_column[first + c], 0);
        } else {
          tiles_.template Load<r * 2 + c>(Sums(r == 0 ? r0 : r1, first + c), sums_bytes);
        }
      });
    });
    const auto load_rows = [&](int pair) __attribute__((always_inline)) {
      Unrolled<R>([&](auto r) __attribute__((always_inline)) {
        const int row = r == 0 ? r0 : r1;
        if (x_bytes > 0) {
          tiles_.template Load<kRowTile + r>(t.x[row] + pair, x_bytes);
        } else {
          LoadCopy<kRowTile + r>(row, pair);
        }
      });
    };
    const auto meet = [&](auto c, auto weights, const float* from) __attribute__((always_inline)) {
      tiles_.template Load<weights>(from, line_bytes);
      Unrolled<R>([&](auto r) __attribute__((always_inline)) {
        tiles_.template MultiplyAdd<r * 2 + c, kRowTile + r, weights>();
      });
    };
    for (int tile = 0; tile < tiles; ++tile, w += kParts * t.columns * kTileWords * kTileWords) {
      const int pair = first_pair_ + tile * kTileWords;
      load_rows(pair);
      Unrolled<C>([&](auto c) __attribute__((always_inline)) {
        if constexpr (kParts == 1) {
          meet(c, std::integral_constant<int, kWeightTile + c % 2>(), w + c * kTileWords);
        } else {
          meet(c, std::integral_constant<int, kWeightTile>(), w + c * kTileWords);
          meet(c, std::integral_constant<int, kWeightTile + 1>(), w + (t.columns + c) * kTileWords);
        }
      });
      if constexpr (kParts == 2) {
        load_rows(t.pairs + pair);
        Unrolled<C>([&](auto c) __attribute__((always_inline)) {
          meet(c, std::integral_constant<int, kWeightTile + c % 2>(), w + c * kTileWords);
        });
      }
      for (int line = 0; line < lines_ahead; line += 2) {
        __builtin_prefetch(ahead + line * kTileWords, 0, 2);
      }
      ahead += lines_ahead * kTileWords;
    }
    ahead_ = ahead;
    Unrolled<R>([&](auto r) __attribute__((always_inline)) {
      Unrolled<C>([&](auto c) __attribute__((always_inline)) {
        tiles_.template Store<r * 2 + c>(Sums(r == 0 ? r0 : r1, first + c), sums_bytes);
      });
    });
  }

  // A block's rows that do not follow each other, from `row` on, from that pair on.
  template <int kTile>
  void LoadCopy(int row, int pair) {
    float copy[kTileRows * kTileWords];
    for (int r = 0; r < tiles_.Rows(kTile); ++r) {
      __builtin_memcpy(copy + r * kTileWords, t_->x[row + r] + pair,
                       static_cast<size_t>(kWord * pairs_));
    }
    tiles_.template Load<kTile>(copy, kTileWords * kWord);
  }

  float* Sums(int row, int column) const {
    return t_->sums + row * t_->sums_stride + t_->column[column];
  }
  const float* Line(int pair, int column) const {
    return t_->w + (int64_t{pair} * kParts * t_->columns + column) * kTileWords;
  }

  static constexpr int64_t kWord = sizeof(float);

  Tiles tiles_;
  const TiledArgs* t_ = nullptr;
  static constexpr int kTilesOfBlock = kBlockTiles / kParts;
  int row_blocks_ = 0, passes_ = 0, lines_ahead_ = 0;
  int first_pair_ = 0, pairs_ = 0, tiles_of_block_ = 0;
  const float* ahead_ = nullptr;
};

namespace {  // of each file that includes it

// Bf16Pairs by tiles: what is stored and how rows lie is the same.
template <class Tiles>
struct Bf16Tiles : Bf16Pairs {
  using Tiled = TiledRun<Tiles, 1>;
};

// Of fp32, split. (A weight takes as many bytes as a float.)
template <class Tiles>
struct SplitTiles : Bf16Pairs {
  using Stored = float;
  using Tiled = TiledRun<Tiles, 2>;
};

// What a table of tiles multiplies.
template <class Tiles>
struct ByTiles {
  using Bf16 = Bf16Tiles<Tiles>;
  using Split = SplitTiles<Tiles>;
};

}  // namespace
}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TILED_INL_H_
