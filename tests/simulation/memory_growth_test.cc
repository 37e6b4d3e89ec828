// A scheduler that lives long does not grow: heap in use after 2 x 10^4 requests and after 10^5. What the simulation
// itself holds counts, too. `tests/bench/run simulation` does the same with 10^6.
#include "gtest/gtest.h"
#include "tests/simulation/simulation.h"

namespace cellbatch::sim {
namespace {

TEST(MemoryGrowthTest, TheHeapIsAsLargeAfterAHundredThousandRequestsAsAfterTwentyThousand) {
  const SimulationReport report = Simulate(LongLivedOptions(112'000));
  ASSERT_EQ(report.violation_count, 0) << report.violations.front();
  EXPECT_GT(report.loads, 100);
  const std::optional<int64_t> growth = HeapGrowthBytes(report);
  ASSERT_TRUE(growth.has_value());
  EXPECT_LE(*growth, kHeapNoiseBytes);
}

}  // namespace
}  // namespace cellbatch::sim
