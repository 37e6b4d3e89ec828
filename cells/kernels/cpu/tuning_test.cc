#include "cells/kernels/cpu/tuning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "cells/device/cpu/cpu_features.h"

namespace cellbatch::kernels {
namespace {

constexpr StreamWay kAllWays[] = {StreamWay::kUsual,  StreamWay::kUndisturbed,
                                  StreamWay::kPaired, StreamWay::kPrefetched,
                                  StreamWay::kSpread, StreamWay::kShort};
constexpr int64_t kMiB = int64_t{1} << 20;

int64_t calls[Tuning::kRowClasses][kNumWays] = {};
StreamWay fastest_near = StreamWay::kUsual, fastest_far = StreamWay::kUsual;

// A kernel that does nothing but take longer in all ways but one, in every other class.
void Pretend(const PackedProduct& product, const ProductArgs& args, int, int,
             ProductScratch* scratch) {
  const int c = Tuning::ClassOf(args.num_rows);
  const bool far = product.weight_bytes() > 16 * kMiB;
  const StreamWay way = scratch->tuning().WayOf(args.num_rows, far);
  ++calls[c][static_cast<int>(way)];
  const bool fast = way == (far ? fastest_far : fastest_near) && c % 2 == 0;
  volatile double work = 1.0;
  for (int i = 0; i < (fast ? 1000 : 300000); ++i) work = work * 1.01;
}

CpuKernels Pretending() {
  CpuKernels kernels{};
  kernels.run_product = Pretend;
  kernels.ways = [](int) { return (1u << kNumWays) - 2; };
  return kernels;
}

void Forget() { std::fill_n(&calls[0][0], sizeof(calls) / sizeof(int64_t), 0); }

TEST(TuningTest, TheFasterWayWinsForItsClassAfterAsManyTurnsEach) {
  for (const StreamWay way : kAllWays) {
    Forget();
    fastest_near = way;
    const Tuning tuning = MeasureTuning(Pretending(), {.memory_bytes = 0});
    for (size_t c = 2; c < Tuning::kRowClasses; c += 2) {
      EXPECT_EQ(tuning.near[c], way) << "class " << c;
    }
    for (int c = 1; c < Tuning::kRowClasses; ++c) {
      EXPECT_GE(calls[c][0], 2) << "class " << c;
      for (const int64_t n : calls[c]) EXPECT_EQ(n, calls[c][0]) << "class " << c;
    }
  }
}

TEST(TuningTest, WeightsFromMemoryAreMeasuredByThemselvesWhereThereIsRoomForThem) {
  const int64_t cache = DetectCpuFeatures().l3_bytes;
  fastest_near = StreamWay::kPaired;
  fastest_far = StreamWay::kSpread;
  const Tuning none = MeasureTuning(Pretending(), {.memory_bytes = cache});
  const Tuning both = MeasureTuning(Pretending(), {.memory_bytes = 2 * cache + 8 * kMiB});
  for (size_t c = 2; c < Tuning::kRowClasses; c += 2) {
    EXPECT_EQ(none.near[c], StreamWay::kPaired) << "class " << c;
    EXPECT_EQ(none.far[c], StreamWay::kUsual) << "class " << c;
    EXPECT_EQ(both.near[c], StreamWay::kPaired) << "class " << c;
    EXPECT_EQ(both.far[c], cache > 0 ? StreamWay::kSpread : StreamWay::kUsual) << "class " << c;
  }
}

TEST(TuningTest, EveryNumberOfRowsHasTheWayOfItsClass) {
  Tuning tuning;
  tuning.near[8] = StreamWay::kPaired;
  tuning.near[9] = StreamWay::kShort;
  tuning.near[10] = StreamWay::kSpread;
  tuning.far[11] = StreamWay::kPrefetched;
  tuning.far[12] = StreamWay::kSpread;
  EXPECT_EQ(tuning.WayOf(7, false), StreamWay::kUsual);
  EXPECT_EQ(tuning.WayOf(8, false), StreamWay::kPaired);
  EXPECT_EQ(tuning.WayOf(9, false), StreamWay::kShort);
  EXPECT_EQ(tuning.WayOf(12, false), StreamWay::kShort);
  EXPECT_EQ(tuning.WayOf(13, false), StreamWay::kSpread);
  EXPECT_EQ(tuning.WayOf(16, false), StreamWay::kSpread);
  EXPECT_EQ(tuning.WayOf(17, false), StreamWay::kUsual);
  EXPECT_EQ(tuning.WayOf(17, true), StreamWay::kPrefetched);
  EXPECT_EQ(tuning.WayOf(48, true), StreamWay::kPrefetched);
  EXPECT_EQ(tuning.WayOf(49, true), StreamWay::kSpread);
  EXPECT_EQ(tuning.WayOf(kChunkRows, true), StreamWay::kSpread);
}

TEST(TuningTest, WhatItFoundIsToldByRows) {
  Tuning tuning;
  EXPECT_EQ(Describe(tuning), "as usual");
  tuning.near[1] = StreamWay::kPrefetched;
  tuning.near[4] = StreamWay::kUndisturbed;
  tuning.near[9] = StreamWay::kShort;
  tuning.near[10] = tuning.near[11] = tuning.near[12] = StreamWay::kSpread;
  EXPECT_EQ(Describe(tuning),
            "1: prefetched, 4: undisturbed, 9-12: short, 13-16: spread, 17-48: spread, 49-: "
            "spread, else as usual; from memory as usual");
  tuning.far = tuning.near;
  EXPECT_EQ(Describe(tuning),
            "1: prefetched, 4: undisturbed, 9-12: short, 13-16: spread, 17-48: spread, 49-: "
            "spread, else as usual");
}

// tile_test shows that those rows do meet other tiles one way than the other.
TEST(TuningTest, ItRunsRowsForWhichThereIsAChoiceAndNothingWhereThereIsNone) {
  for (const CpuKernels* table : RunnableKernels(DetectCpuFeatures())) {
    CpuKernels kernels = *table;
    kernels.run_product = Pretend;
    Forget();
    MeasureTuning(kernels, {.memory_bytes = 0});
    for (int c = 1; c < Tuning::kRowClasses; ++c) {
      constexpr int kRowsOfMore[] = {12, 16, 32, 64};
      const uint32_t ways =
          table->ways(c <= kMostBlockRows ? c : kRowsOfMore[c - kMostBlockRows - 1]);
      const bool choice = std::popcount(ways) > 1;
      EXPECT_EQ(calls[c][0] > 0, choice) << table->name << ", class " << c;
      for (int way = 1; way < kNumWays; ++way) {
        const bool there = choice && (ways >> way & 1) != 0;
        EXPECT_EQ(calls[c][way] > 0, there) << table->name << ", class " << c << ", way " << way;
      }
    }
  }
}

}  // namespace
}  // namespace cellbatch::kernels
