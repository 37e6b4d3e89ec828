#include "cells/kernels/cpu/tuning.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace cellbatch::kernels {
namespace {

int64_t calls = 0, prefetching_calls = 0;
int32_t rows_asked = 0;
bool prefetching_is_faster = false;

// A kernel that does nothing but take longer one way.
void Pretend(const PackedProduct&, const ProductArgs& args, int, int, ProductScratch* scratch) {
  ++calls;
  rows_asked = args.num_rows;
  const bool prefetch = scratch->tuning().prefetch_alone;
  prefetching_calls += prefetch;
  volatile double work = 1.0;
  for (int i = 0; i < (prefetch == prefetching_is_faster ? 1000 : 1000000); ++i) work = work * 1.01;
}

TEST(TuningTest, TheFasterWayWinsAfterAsManyTurnsEach) {
  CpuKernels kernels{};
  kernels.run_product = Pretend;
  kernels.rows_streamed_once = 6;
  for (bool faster : {false, true}) {
    calls = prefetching_calls = 0;
    prefetching_is_faster = faster;
    EXPECT_EQ(MeasureTuning(kernels).prefetch_alone, faster);
    EXPECT_GT(calls, 0);
    EXPECT_EQ(prefetching_calls * 2, calls);
  }
}

// tile_test shows that those rows do meet other tiles one way than the other.
TEST(TuningTest, ItRunsRowsForWhichThereIsAChoiceAndNothingWhereThereIsNone) {
  for (const CpuKernels* table : RunnableKernels(DetectCpuFeatures())) {
    CpuKernels kernels = *table;
    kernels.run_product = Pretend;
    calls = rows_asked = 0;
    const Tuning tuning = MeasureTuning(kernels);
    EXPECT_LE(rows_asked, table->rows_streamed_once) << table->name;
    EXPECT_EQ(rows_asked > 0, table->rows_streamed_once > 0) << table->name;
    EXPECT_TRUE(calls > 0 || !tuning.prefetch_alone) << table->name;
  }
}

}  // namespace
}  // namespace cellbatch::kernels
