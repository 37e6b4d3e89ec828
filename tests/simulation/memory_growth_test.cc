// A scheduler that lives long does not grow: heap in use after 2 x 10^4 requests and after 10^5, with models that come
// and go, requests that are cancelled and news that come late. What the simulation itself holds counts, too.
#include "gtest/gtest.h"
#include "tests/simulation/simulation.h"

namespace cellbatch::sim {
namespace {

// What is in flight when the heap is looked at differs by so much: 1.6 bytes for each request between.
constexpr int64_t kNoiseBytes = 128 << 10;

TEST(MemoryGrowthTest, TheHeapIsAsLargeAfterAHundredThousandRequestsAsAfterTwentyThousand) {
  SimulationOptions o;
  o.requests = 112'000;
  o.workers = 2;
  o.models = 2;
  o.change_chance = 0.0005;
  o.late_take_chance = 0.5;
  o.grow_chance = 0.2;
  const SimulationReport report = Simulate(o);
  ASSERT_EQ(report.violation_count, 0) << report.violations.front();
  ASSERT_GE(report.heap_bytes.size(), 9u);
  EXPECT_GT(report.loads, 100);
  EXPECT_LE(report.heap_bytes[8], report.heap_bytes[1] + kNoiseBytes);
}

}  // namespace
}  // namespace cellbatch::sim
