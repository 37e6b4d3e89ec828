#include "cells/kernels/cpu/tuning.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace cellbatch::kernels {
namespace {

int64_t calls = 0, prefetching_calls = 0;
bool prefetching_is_faster = false;

// A kernel that does nothing but take longer one way.
void Pretend(const PackedProduct&, const ProductArgs&, int, int, ProductScratch* scratch) {
  ++calls;
  const bool prefetch = scratch->tuning().prefetch_alone;
  prefetching_calls += prefetch;
  volatile double work = 1.0;
  for (int i = 0; i < (prefetch == prefetching_is_faster ? 1000 : 1000000); ++i) work = work * 1.01;
}

TEST(TuningTest, TheFasterWayWinsAfterAsManyTurnsEach) {
  CpuKernels kernels{};
  kernels.run_product = Pretend;
  for (bool faster : {false, true}) {
    calls = prefetching_calls = 0;
    prefetching_is_faster = faster;
    EXPECT_EQ(MeasureTuning(kernels).prefetch_alone, faster);
    EXPECT_GT(calls, 0);
    EXPECT_EQ(prefetching_calls * 2, calls);
  }
}

}  // namespace
}  // namespace cellbatch::kernels
