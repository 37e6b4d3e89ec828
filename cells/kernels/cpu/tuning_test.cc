#include "cells/kernels/cpu/tuning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace cellbatch::kernels {
namespace {

int64_t calls[kMostBlockRows + 1][4] = {};
StreamWay fastest = StreamWay::kUsual;

// A kernel that does nothing but take longer in all ways but one, with an even number of rows.
void Pretend(const PackedProduct&, const ProductArgs& args, int, int, ProductScratch* scratch) {
  const StreamWay way = scratch->tuning().way[static_cast<size_t>(args.num_rows)];
  ++calls[args.num_rows][static_cast<int>(way)];
  const bool fast = way == fastest && args.num_rows % 2 == 0;
  volatile double work = 1.0;
  for (int i = 0; i < (fast ? 1000 : 300000); ++i) work = work * 1.01;
}

TEST(TuningTest, TheFasterWayWinsForItsRowsAfterAsManyTurnsEach) {
  CpuKernels kernels{};
  kernels.run_product = Pretend;
  kernels.rows_streamed_once = 6;
  for (const StreamWay way :
       {StreamWay::kUsual, StreamWay::kUndisturbed, StreamWay::kPaired, StreamWay::kPrefetched}) {
    std::fill_n(&calls[0][0], sizeof(calls) / sizeof(int64_t), 0);
    fastest = way;
    const Tuning tuning = MeasureTuning(kernels);
    for (int rows = 2; rows <= 6; rows += 2) {
      EXPECT_EQ(tuning.way[static_cast<size_t>(rows)], way) << rows << " rows";
    }
    for (int rows = 1; rows <= 6; ++rows) {
      EXPECT_GE(calls[rows][0], 2) << rows << " rows";
      for (const int64_t n : calls[rows]) EXPECT_EQ(n, calls[rows][0]) << rows << " rows";
    }
  }
}

TEST(TuningTest, WhatItFoundIsToldByRows) {
  Tuning tuning;
  EXPECT_EQ(Describe(tuning), "as usual");
  tuning.way[1] = StreamWay::kPrefetched;
  tuning.way[4] = StreamWay::kUndisturbed;
  EXPECT_EQ(Describe(tuning), "1: prefetched, 4: undisturbed, else as usual");
}

// tile_test shows that those rows do meet other tiles one way than the other.
TEST(TuningTest, ItRunsRowsForWhichThereIsAChoiceAndNothingWhereThereIsNone) {
  for (const CpuKernels* table : RunnableKernels(DetectCpuFeatures())) {
    CpuKernels kernels = *table;
    kernels.run_product = Pretend;
    std::fill_n(&calls[0][0], sizeof(calls) / sizeof(int64_t), 0);
    MeasureTuning(kernels);
    for (int rows = 0; rows <= kMostBlockRows; ++rows) {
      const bool streamed = rows > 0 && rows <= table->rows_streamed_once;
      EXPECT_EQ(calls[rows][0] > 0, streamed) << table->name << ", " << rows << " rows";
    }
  }
}

}  // namespace
}  // namespace cellbatch::kernels
