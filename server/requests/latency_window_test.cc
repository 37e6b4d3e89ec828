#include "server/requests/latency_window.h"

#include <algorithm>
#include <random>
#include <thread>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

LatencySample Sample(int64_t end_ns) {
  return {.end_ns = end_ns,
          .model = ModelId(static_cast<int32_t>(end_ns % 7)),
          .ok = end_ns % 3 != 0,
          .request_ns = end_ns * 2,
          .queue_ns = end_ns * 3,
          .compute_ns = end_ns * 5};
}

bool Consistent(const LatencySample& s) {
  const LatencySample expected = Sample(s.end_ns);
  return s.model == expected.model && s.ok == expected.ok && s.request_ns == expected.request_ns &&
         s.queue_ns == expected.queue_ns && s.compute_ns == expected.compute_ns;
}

TEST(LatencyRingTest, ReturnsWhatEndedInTheWindow) {
  LatencyRing ring(1024);
  for (int64_t i = 1; i <= 100; ++i) ring.Record(Sample(i));
  std::vector<LatencySample> out;
  EXPECT_EQ(ring.CopySince(91, out), 0);
  ASSERT_EQ(out.size(), 10u);
  for (const LatencySample& sample : out) EXPECT_TRUE(Consistent(sample));
}

TEST(LatencyRingTest, RemembersTheLastOnesAndSaysHowFarBackTheyReach) {
  LatencyRing ring(64);
  for (int64_t i = 1; i <= 1000; ++i) ring.Record(Sample(i));
  std::vector<LatencySample> out;
  EXPECT_EQ(ring.CopySince(0, out), 1000 - 63);
  EXPECT_EQ(out.size(), 64u);
}

TEST(LatencyRingTest, AReaderBesideTheWriterNeverSeesAMixtureOfTwoSamples) {
  LatencyRing ring(64);
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int64_t i = 1; !stop; ++i) ring.Record(Sample(i));
  });
  int64_t seen = 0;
  for (int round = 0; round < 3000 || seen == 0; ++round) {
    std::vector<LatencySample> out;
    ring.CopySince(0, out);
    for (const LatencySample& sample : out) ASSERT_TRUE(Consistent(sample)) << sample.end_ns;
    seen += static_cast<int64_t>(out.size());
  }
  stop = true;
  writer.join();
}

TEST(ExactPercentilesTest, AreOrderStatisticsThatSomeRequestReallyTook) {
  std::vector<int64_t> times(1000);
  for (int64_t i = 0; i < 1000; ++i) times[static_cast<size_t>(i)] = i + 1;
  std::shuffle(times.begin(), times.end(), std::mt19937(1));
  const ExactPercentiles p = PercentilesOf(times);
  EXPECT_EQ(p.count, 1000u);
  EXPECT_EQ(p.p50, 500);
  EXPECT_EQ(p.p90, 900);
  EXPECT_EQ(p.p99, 990);
  EXPECT_EQ(p.p999, 999);
  EXPECT_EQ(p.max, 1000);
  EXPECT_EQ(p.mean, 500);
  // The ceil(p/100 * n)-th: of ten the last one for all beyond 90 %, of three the second for half.
  const ExactPercentiles ten = PercentilesOf({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  EXPECT_EQ(ten.p50, 5);
  EXPECT_EQ(ten.p90, 9);
  EXPECT_EQ(ten.p99, 10);
  EXPECT_EQ(PercentilesOf({3, 1, 2}).p50, 2);
  EXPECT_EQ(PercentilesOf({7}).p999, 7);
  EXPECT_EQ(PercentilesOf({}).count, 0u);
}

}  // namespace
}  // namespace cellbatch
