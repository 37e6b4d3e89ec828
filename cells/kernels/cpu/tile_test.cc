// Every tile of every instruction set's tiling (rows x columns x lines prefetched; pairs; columns apart), seen and broken one at a time. The
// tiles are laid here in plain arithmetic, so that all tilings are tried on any machine: which rows and columns meet in
// which tile depends on the tiling alone, and the check feeds every table the same shapes.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "cells/kernels/cpu/kernel_check.h"
#include "cells/kernels/cpu/kernel_table_inl.h"
#include "cells/kernels/cpu/random_product.h"
#include "cells/kernels/cpu/tiling.h"
#include "cells/kernels/cpu/tuning.h"
#include "cells/kernels/cpu/vec_portable.h"

namespace cellbatch::kernels {
namespace {

// Rows, columns, what is prefetched (or kPair, kColumnsApart, kRowsPacked), and as what weights are stored.
using Shape = std::tuple<int, int, int, Precision>;
constexpr Shape kNone = {};
constexpr int kPair = kWaysAhead, kColumnsApart = kWaysAhead + 1, kRowsPacked = kWaysAhead + 2;

template <class S>
constexpr Precision kPrecisionOf = sizeof(typename S::Number) == 4   ? Precision::kFp32
                                   : sizeof(typename S::Number) == 2 ? Precision::kBf16
                                                                     : Precision::kW8;

// What the tiles laid here were asked for, and which of them is to be wrong.
std::set<Shape> laid;
Shape broken = kNone;
bool one_panel_twice = false;  // how a pair is wrong: the second panel's sums are the first's
// How columns apart are wrong: the last step in which something is prefetched is left out; the second column is the first.
bool without_a_prefetching_step = false, one_column_twice = false;

// The same tiling under another name, for which tiles are found below.
template <class Tiling>
struct Watched : Tiling {};

// Leaves out the last step of k.
template <class V, class Tiling, class S, int R, int N, int kAhead>
void BrokenTile(const TileArgs& args) {
  TileArgs spoilt = args;
  --spoilt.depth;
  Tile<V, Watched<Tiling>, S, R, N, kAhead>(spoilt);
}

template <class V, class S, int R, int N>
void BrokenPairTile(const TileArgs& args) {
  TileArgs spoilt = args;
  if (one_panel_twice) {
    spoilt.apart = 0;
  } else {
    --spoilt.depth;
  }
  PairTile<V, S, R, N>(spoilt);
}

template <class V, class S, int R, int C, bool kPacked = false>
void BrokenApartTile(const TileArgs& args) {
  TileArgs spoilt = args;
  if (one_column_twice) {
    spoilt.apart = 0;
  } else if (!without_a_prefetching_step) {
    --spoilt.depth;
  } else if (args.ahead > 0) {
    spoilt.depth = spoilt.ahead = args.ahead - 1;
    ApartTile<V, S, R, C, kPacked>(spoilt);
    spoilt.k += int64_t{args.ahead} * S::kDepth;
    spoilt.w = static_cast<const typename S::Number*>(args.w) + args.ahead * kColumnStep<S>;
    spoilt.depth = args.depth - args.ahead;
    spoilt.ahead = 0;
    spoilt.from = args.sums;
    spoilt.from_stride = args.sums_stride;
    spoilt.from_column = args.column;
  }
  ApartTile<V, S, R, C, kPacked>(spoilt);
}

}  // namespace

template <class V, class Tiling, class S, int R>
struct TilesOfRows<V, Watched<Tiling>, S, R> {
  // Which tile sums as one does that prefetches so: what is prefetched changes no sums, and half as many tiles compile sooner.
  // Loops over several steps of k at once are others, and so is one line a step where two passes share it.
  static constexpr int SummedAs(int columns, int ahead) {
    const bool two_passes = (columns + Tiling::Columns(R) - 1) / Tiling::Columns(R) == 2;
    return StepsALine(ahead) > 1 || (ahead == 1 && two_passes) ? ahead : 0;
  }
  template <int N>
  static TileFunction Of(int ahead, bool spoil) {
    TileFunction found = nullptr;
    Unrolled<kWaysAhead>([&](auto lines) {
      constexpr int kLines = decltype(lines)::value, kSummedAs = SummedAs(N, kLines);
      if constexpr (IsLaid<Tiling, S>(R, N, kLines)) {
        if (kLines != ahead) return;
        found = spoil ? BrokenTile<V, Tiling, S, R, N, kSummedAs>
                      : Tile<V, Watched<Tiling>, S, R, N, kSummedAs>;
      }
    });
    return found;
  }
  template <int N>
  static TileFunction OfPair(bool spoil) {
    if constexpr (R <= Tiling::PairRows(N)) {
      return spoil ? BrokenPairTile<V, S, R, N> : PairTile<V, S, R, N>;
    } else {
      return nullptr;
    }
  }
  static TileFunction Find(int columns, int ahead) {
    const Shape shape = {R, columns, ahead, kPrecisionOf<S>};
    laid.insert(shape);
    TileFunction found = nullptr;
    Unrolled<kMaxColumns>([&](auto n) {
      constexpr int kColumns = decltype(n)::value + 1;
      if (kColumns == columns) found = Of<kColumns>(ahead, shape == broken);
    });
    return found;
  }
  static TileFunction FindPair(int columns) {
    const Shape shape = {R, columns, kPair, kPrecisionOf<S>};
    laid.insert(shape);
    TileFunction found = nullptr;
    Unrolled<kMaxColumns>([&](auto n) {
      constexpr int kColumns = decltype(n)::value + 1;
      if (kColumns == columns) found = OfPair<kColumns>(shape == broken);
    });
    return found;
  }
  static TileFunction FindApart(int columns) {
    const Shape shape = {R, columns, kColumnsApart, kPrecisionOf<S>};
    laid.insert(shape);
    TileFunction found = nullptr;
    Unrolled<Tiling::Columns(R)>([&](auto n) {
      constexpr int kColumns = decltype(n)::value + 1;
      if (kColumns != columns) return;
      found = shape == broken ? BrokenApartTile<V, S, R, kColumns> : ApartTile<V, S, R, kColumns>;
    });
    return found;
  }
  static TileFunction FindPacked() {
    const Shape shape = {R, 1, kRowsPacked, kPrecisionOf<S>};
    laid.insert(shape);
    return shape == broken ? BrokenApartTile<V, S, R, 1, true> : ApartTile<V, S, R, 1, true>;
  }
};

namespace {

template <class Tiling>
class TileTest : public testing::Test {
 protected:
  void SetUp() override {
    laid.clear();
    broken = kNone;
    one_panel_twice = without_a_prefetching_step = one_column_twice = false;
  }
  void TearDown() override { SetUp(); }

  static constexpr CpuKernels kKernels = MakeKernels<Vec, Watched<Tiling>>("watched");

  // What the check says of `broken`. A tile of n columns lies in a panel of n groups, or of fewer and narrower ones: the
  // likeliest are asked first.
  static std::string Told(const Shape& shape) {
    const Precision precision = std::get<3>(shape);
    const std::string told = CheckProducts(kKernels, precision, std::get<1>(shape));
    return told.empty() ? CheckProducts(kKernels, precision) : told;
  }
  // Each that is of that kind, broken in the way that is set.
  template <class Kind>
  static void ExpectEachIsTold(Kind is_of_kind) {
    for (const Shape& shape : Possible()) {
      if (!is_of_kind(shape)) continue;
      broken = shape;
      EXPECT_NE(Told(shape), "") << Text(shape);
    }
  }
  static std::string Text(const Shape& shape) {
    return std::string(Name(std::get<3>(shape))) + ", " + std::to_string(std::get<0>(shape)) +
           " rows, " + std::to_string(std::get<1>(shape)) + " columns, " +
           std::to_string(std::get<2>(shape)) + " lines ahead";
  }

  // What can be laid at all, by the arithmetic of row blocks: the same in product_inl.h, and no reference but a count.
  // Weights in less than fp32 are met as they are stored by what passes over them once and by few rows; by others as floats.
  static std::set<Shape> Possible() {
    if (kApart<Tiling>) return PossibleApart();
    std::set<Shape> shapes = PossibleOfFloats();
    for (const Precision precision : {Precision::kBf16, Precision::kW8}) {
      const int most = Tiling::MostExpandedInTiles(precision == Precision::kBf16 ? 1 : 2);
      for (int columns = 1; columns <= kMaxColumns; ++columns) {
        for (int rows = 1; rows <= std::max(most, Tiling::kRows); ++rows) {
          if (rows <= Tiling::PairRows(columns)) shapes.insert({rows, columns, kPair, precision});
          if (rows <= Tiling::kRows && columns <= Tiling::Columns(rows)) {
            shapes.insert({rows, columns, kNear, precision});
            shapes.insert({rows, columns, 0, precision});
          } else if (rows <= most) {
            AddInBlocks(rows, columns, precision, shapes);
          }
        }
      }
    }
    return shapes;
  }

  // A pass reads as many columns as fit, or blocks are of one column; several row blocks meet what is stored as floats only,
  // and are packed where that is worth it.
  static std::set<Shape> PossibleApart() {
    std::set<Shape> shapes;
    for (const Precision precision : kPrecisions) {
      for (int rows = 1; rows <= Tiling::kRows; ++rows) {
        for (int columns = 1; columns <= Tiling::Columns(rows); ++columns) {
          shapes.insert({rows, columns, kColumnsApart, precision});
        }
      }
    }
    for (int rows = Tiling::kRows / 2; rows <= Tiling::kRows; ++rows) {
      shapes.insert({rows, 1, kRowsPacked, Precision::kFp32});
    }
    return shapes;
  }

  static std::set<Shape> PossibleOfFloats() {
    constexpr Precision kFloats = Precision::kFp32;
    std::set<Shape> shapes;
    for (int columns = 1; columns <= kMaxColumns; ++columns) {
      for (int rows = 1; rows <= kChunkRows; ++rows) {
        if (rows <= Tiling::kRows && columns <= Tiling::Columns(rows)) {
          shapes.insert({rows, columns, 0, kFloats});
          if (rows <= Tiling::PairRows(columns)) shapes.insert({rows, columns, kPair, kFloats});
        }
        AddInBlocks(rows, columns, kFloats, shapes);
        const bool is_short = rows >= Tiling::kAlwaysSpread && rows <= Tiling::kMostShortRows;
        const int every_second = (columns + 1) / 2;
        if (is_short) AddSpread(rows, columns, every_second, kFloats, shapes);
      }
    }
    return shapes;
  }

  // In long blocks of K. (Of W8, whose steps are no lines, tiles prefetch nothing.)
  static void AddInBlocks(int rows, int columns, Precision precision, std::set<Shape>& shapes) {
    if (rows < Tiling::kAlwaysSpread) AddNear(rows, columns, precision, shapes);
    if (!Tiling::kSpreads || rows == 1) return;
    AddSpread(rows, columns, columns, precision, shapes);
    const bool in_passes = rows <= Tiling::kRows && columns > Tiling::Columns(rows);
    if (in_passes) AddSpread(rows, columns, 0, precision, shapes);  // undisturbed
  }

  // The first row block prefetches, the others find what it brought.
  static void AddNear(int rows, int columns, Precision precision, std::set<Shape>& shapes) {
    const int blocks = Tiling::Blocks(rows), near = precision == Precision::kW8 ? 0 : kNear;
    for (int b = 0; b < blocks; ++b) {
      const int in_block = PartStart(rows, blocks, b + 1) - PartStart(rows, blocks, b);
      shapes.insert({in_block, columns, b == 0 ? near : 0, precision});
    }
  }

  // Each row block prefetches its share of the lines of one step of k, of two or of four, until there are no more.
  static void AddSpread(int rows, int columns, int all_lines, Precision precision,
                        std::set<Shape>& shapes) {
    if (precision == Precision::kW8) all_lines = 0;
    const int blocks = Tiling::SpreadBlocks(rows), share = (all_lines + blocks - 1) / blocks;
    for (int b = 0, left = all_lines; b < blocks; ++b) {
      const int in_block = PartStart(rows, blocks, b + 1) - PartStart(rows, blocks, b);
      const int lines = std::min(left, share);
      const bool fourth = all_lines > 0 && blocks >= 4 * all_lines;
      const bool second = all_lines > 0 && blocks >= 2 * all_lines;
      const int ahead = fourth   ? (b < 4 * all_lines ? kEveryFourth : 0)
                        : second ? (b < 2 * all_lines ? kEverySecond : 0)
                                 : lines;
      shapes.insert({in_block, columns, ahead, precision});
      left -= lines;
    }
  }
};

using Tilings = testing::Types<Avx512Tiling, Avx2Tiling, PortableTiling>;
struct TilingNames {
  template <class Tiling>
  static std::string GetName(int) {
    return std::is_same_v<Tiling, Avx512Tiling> ? "avx512"
           : std::is_same_v<Tiling, Avx2Tiling> ? "avx2"
                                                : "portable";
  }
};
TYPED_TEST_SUITE(TileTest, Tilings, TilingNames);

TYPED_TEST(TileTest, TheCheckLaysEveryTileThatABatchCanMeet) {
  for (const Precision precision : kPrecisions) {
    EXPECT_EQ(CheckProducts(this->kKernels, precision), "");
  }
  EXPECT_EQ(laid, this->Possible());
}

TYPED_TEST(TileTest, ATileThatLeavesOutOneStepIsTold) {
  this->ExpectEachIsTold([](const Shape&) { return true; });
}

TYPED_TEST(TileTest, AColumnThatLeavesOutAStepInWhichItPrefetchesIsTold) {
  without_a_prefetching_step = true;
  this->ExpectEachIsTold([](const Shape& s) {
    return std::get<2>(s) == kColumnsApart || std::get<2>(s) == kRowsPacked;
  });
}

TYPED_TEST(TileTest, OneColumnReadForAllThatLieApartIsTold) {
  one_column_twice = true;
  this->ExpectEachIsTold(
      [](const Shape& s) { return std::get<2>(s) == kColumnsApart && std::get<1>(s) > 1; });
}

TYPED_TEST(TileTest, APairThatReadsOnePanelTwiceIsTold) {
  one_panel_twice = true;
  this->ExpectEachIsTold([](const Shape& s) { return std::get<2>(s) == kPair; });
}

TEST(TilingTest, UsuallyRowsReadPairsWhereTheyFitAndPrefetchWhereThatKeepsUpOrWeightsAreFar) {
  const auto usual = [](int rows, int columns, bool far) {
    return WayOf<Avx512Tiling>(StreamWay::kUsual, rows, columns, far);
  };
  for (const bool far : {false, true}) {
    for (int rows = 1; rows <= 3; ++rows) EXPECT_EQ(usual(rows, 4, far), StreamWay::kPaired);
    EXPECT_EQ(usual(4, 3, far), StreamWay::kPaired);
    for (int rows = 5; rows <= 6; ++rows) EXPECT_EQ(usual(rows, 4, far), StreamWay::kPrefetched);
    EXPECT_EQ(usual(7, 4, far), StreamWay::kPrefetched);  // two passes
    EXPECT_EQ(usual(9, 4, far), StreamWay::kSpread);
  }
  EXPECT_EQ(usual(4, 4, false), StreamWay::kUndisturbed);
  EXPECT_EQ(usual(4, 4, true), StreamWay::kPrefetched);
}

TEST(TilingTest, WhatTuningAsksForIsDoneWhereItCanBe) {
  for (const bool far : {false, true}) {
    EXPECT_EQ(WayOf<Avx512Tiling>(StreamWay::kPrefetched, 1, 4, far), StreamWay::kPrefetched);
    EXPECT_EQ(WayOf<Avx512Tiling>(StreamWay::kUndisturbed, 6, 4, far), StreamWay::kUndisturbed);
    EXPECT_EQ(WayOf<Avx512Tiling>(StreamWay::kPaired, 4, 4, far), StreamWay::kUndisturbed);
    EXPECT_EQ(WayOf<Avx512Tiling>(StreamWay::kUndisturbed, 8, 4, far), StreamWay::kUndisturbed);
    EXPECT_EQ(WayOf<Avx512Tiling>(StreamWay::kUndisturbed, 9, 4, far), StreamWay::kSpread);
    EXPECT_EQ(WayOf<Avx512Tiling>(StreamWay::kPaired, 8, 4, far), StreamWay::kPrefetched);
    EXPECT_EQ(WayOf<Avx512Tiling>(StreamWay::kSpread, 8, 4, far), StreamWay::kSpread);
    EXPECT_EQ(WayOf<Avx512Tiling>(StreamWay::kSpread, 1, 4, far), StreamWay::kPaired);
    EXPECT_EQ(WayOf<Avx512Tiling>(StreamWay::kPrefetched, 9, 4, far), StreamWay::kSpread);
    EXPECT_EQ(WayOf<Avx512Tiling>(StreamWay::kShort, 8, 4, far), StreamWay::kPrefetched);
    EXPECT_EQ(WayOf<Avx512Tiling>(StreamWay::kShort, 9, 4, far), StreamWay::kShort);
    EXPECT_EQ(WayOf<Avx512Tiling>(StreamWay::kShort, 48, 4, far), StreamWay::kShort);
    EXPECT_EQ(WayOf<Avx512Tiling>(StreamWay::kShort, 49, 4, far), StreamWay::kSpread);
    EXPECT_EQ(WayOf<Avx2Tiling>(StreamWay::kShort, 17, 4, far), StreamWay::kSpread);
    EXPECT_EQ(WayOf<Avx2Tiling>(StreamWay::kPrefetched, 9, 4, far), StreamWay::kPrefetched);
    EXPECT_EQ(WayOf<Avx2Tiling>(StreamWay::kSpread, 9, 4, far), StreamWay::kSpread);
    EXPECT_EQ(WayOf<Avx2Tiling>(StreamWay::kUndisturbed, 6, 5, far), StreamWay::kUndisturbed);
    EXPECT_EQ(WayOf<Avx2Tiling>(StreamWay::kUndisturbed, 7, 4, far),
              far ? StreamWay::kPrefetched : StreamWay::kSpread);
    EXPECT_EQ(WayOf<Avx2Tiling>(StreamWay::kPaired, 1, 4, far), StreamWay::kUndisturbed);
    EXPECT_EQ(WayOf<Avx2Tiling>(StreamWay::kUsual, 17, 4, far), StreamWay::kSpread);
    EXPECT_EQ(WayOf<PortableTiling>(StreamWay::kSpread, 9, 4, far), StreamWay::kPrefetched);
  }
}

TEST(TilingTest, WeightsAreFarThatFillNearlyAllOfAKnownCache) {
  Tuning tuning;
  EXPECT_FALSE(tuning.IsFar(int64_t{1} << 40));
  tuning.cache_bytes = 32 << 20;
  EXPECT_TRUE(tuning.IsFar(32 << 20));
  EXPECT_FALSE(tuning.IsFar(28 << 20));
  EXPECT_FALSE(tuning.IsFar(16 << 20));
}

// What MeasureTuning runs in different ways is run by different tiles, or there is nothing to measure.
TYPED_TEST(TileTest, TheWaysThatTuningMeasuresAreDifferentTiles) {
  MeasureTuning(this->kKernels, {.memory_bytes = 0});
  const auto rows_of = [](int ahead) {
    std::set<int> rows;
    for (const Shape& shape : laid) {
      if (std::get<2>(shape) == ahead) rows.insert(std::get<0>(shape));
    }
    return rows;
  };
  EXPECT_EQ(laid.empty(), !TypeParam::kSpreads);  // the portable ones have no choice
  if (laid.empty()) return;
  if (kApart<TypeParam>) {
    EXPECT_EQ(rows_of(kColumnsApart).size(), TypeParam::kRows);
    return;
  }
  EXPECT_EQ(rows_of(kNear).size(), TypeParam::kRows);
  EXPECT_EQ(rows_of(kPair).size(), TypeParam::PairRows(kPanelColumns));
  EXPECT_FALSE(rows_of(kPanelColumns / 2).empty());  // spread over two row blocks
  EXPECT_FALSE(
      rows_of(kEverySecond).empty());  // short, over six: half of the lines that they would spread
  EXPECT_FALSE(rows_of(0).empty());
}

}  // namespace
}  // namespace cellbatch::kernels
