#include "scheduler/stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/lane_counters.h"

namespace cellbatch {
namespace {

TEST(HistogramTest, BucketsTileTheRangeWithoutGapOrOverlap) {
  for (int i = 0; i < kHistogramBuckets; ++i) {
    EXPECT_LT(BucketLow(i), BucketLow(i + 1));
    EXPECT_EQ(BucketOf(BucketLow(i)), i);
    EXPECT_EQ(BucketOf(BucketLow(i + 1) - 1), i);
  }
  EXPECT_EQ(BucketLow(kHistogramBuckets), int64_t{1} << 42);
  EXPECT_EQ(BucketOf(-5), 0);
  EXPECT_EQ(BucketOf(int64_t{1} << 60), kHistogramBuckets - 1);
}

TEST(HistogramTest, ABucketIsAtMostASixteenthOfItsValueWide) {
  for (int i = 16; i < kHistogramBuckets; ++i) {
    EXPECT_LE((BucketLow(i + 1) - BucketLow(i)) * 16, BucketLow(i));
  }
}

TEST(HistogramTest, QuantilesAreTheUpperEdgeOfTheExactOnesBucket) {
  constexpr uint32_t kSeed = 77;
  std::mt19937_64 random(kSeed);
  Histogram histogram;
  std::vector<int64_t> values;
  for (int i = 0; i < 5000; ++i) {
    values.push_back(static_cast<int64_t>(random() >> (24 + random() % 30)));
    histogram.Record(values.back());
  }
  std::sort(values.begin(), values.end());
  const HistogramCounts counts = histogram.Read();
  for (double q : {0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const int64_t exact = values[static_cast<size_t>(std::ceil(q * 5000)) - 1];
    EXPECT_EQ(counts.Quantile(q), BucketLow(BucketOf(exact) + 1) - 1) << q << " seed " << kSeed;
  }
}

TEST(HistogramTest, TwoReadingsSubtractToAWindow) {
  Histogram histogram;
  histogram.Record(10);
  const HistogramCounts before = histogram.Read();
  histogram.Record(1000);
  histogram.Record(1000);
  const HistogramCounts window = histogram.Read() - before;
  EXPECT_EQ(window.count, 2u);
  EXPECT_EQ(window.sum, 2000);
  EXPECT_EQ(window.Quantile(0.0), BucketLow(BucketOf(1000) + 1) - 1);
}

TEST(HistogramTest, TwoHistogramsAddUpToWhatBothCounted) {
  Histogram one, other;
  one.Record(10);
  other.Record(1000);
  other.Record(1000);
  HistogramCounts both = one.Read();
  both += other.Read();
  EXPECT_EQ(both.count, 3u);
  EXPECT_EQ(both.sum, 2010);
  EXPECT_EQ(both.Quantile(0.3), 10);
  EXPECT_EQ(both.Quantile(1.0), BucketLow(BucketOf(1000) + 1) - 1);
}

TEST(HistogramTest, AnEmptyWindowHasQuantileZero) { EXPECT_EQ(HistogramCounts().Quantile(0.5), 0); }

TEST(LaneCountersTest, TheTimeOfTasksIsKeptByTheirSizeAndTheSumOfItIsTheirs) {
  LaneCounters counters(2);
  counters.TaskDone(1, 3, 100);
  counters.TaskDone(1, 3, 50);
  counters.TaskDone(1, 64, 900);
  counters.TaskDone(1, 1 << 20, 7);
  const auto ns = [&](int64_t size) {
    return counters.type(1).batch_ns[static_cast<size_t>(BatchBucketOf(size))].load();
  };
  EXPECT_EQ(ns(3), 150);
  EXPECT_EQ(ns(4), 0);
  EXPECT_EQ(ns(64), 900);
  EXPECT_EQ(ns(1 << 20), 7) << "in the last one";
  EXPECT_EQ(counters.type(1).task_ns.sum(), 1057);
  EXPECT_GT(BucketLow(kBatchBuckets - 1), 4096) << "no --batch-limit reaches the last one";
}

// Prometheus wants a histogram's count to be that of its last bucket, on every page: +Inf said 534 once where 535 lay below.
TEST(HistogramTest, AReaderNeverSeesMoreThanWasWrittenAndItsCountIsThatOfItsBuckets) {
  Histogram histogram;
  constexpr uint64_t kEntries = 100000;
  std::thread writer([&] {
    for (uint64_t i = 0; i < kEntries; ++i) histogram.Record(static_cast<int64_t>(i));
  });
  uint64_t last = 0;
  while (last < kEntries) {
    const HistogramCounts read = histogram.Read();
    const uint64_t now = read.count;
    ASSERT_EQ(std::accumulate(read.buckets.begin(), read.buckets.end(), uint64_t{0}), now);
    ASSERT_GE(now, last);
    ASSERT_LE(now, kEntries);
    last = now;
  }
  writer.join();
}

}  // namespace
}  // namespace cellbatch
