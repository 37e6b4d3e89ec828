#include "cells/device/cpu/split_costs.h"

#include <chrono>
#include <string>
#include <thread>

#include "cells/device/cpu/process_limits.h"
#include "cells/device/cpu/stay_on.h"
#include "gtest/gtest.h"

namespace cellbatch {
namespace {

using std::chrono::microseconds;

void ExpectBounds(const SplitCosts& costs) {
  EXPECT_GE(costs.fork_ns, 100);
  EXPECT_LT(costs.fork_ns, 20e3);
  EXPECT_GE(costs.wake_ns, 2e3);
  EXPECT_LT(costs.wake_ns, 500e3);
}

TEST(SplitCostsTest, ATeamOfOneHasNothingToMeasure) {
  CoreTeam team(1, {}, microseconds(50));
  const SplitCosts costs = MeasureSplitCosts(team, 7.0), usual;
  EXPECT_EQ(costs.per_ns, 7.0);
  EXPECT_EQ(costs.fork_ns, usual.fork_ns);
  EXPECT_EQ(costs.wake_ns, usual.wake_ns);
}

// No machine is known here but this: a fork is no faster than light, and waking takes longer than a fork. With more threads than
// cores both stay within what is believed.
TEST(SplitCostsTest, OfATeamTheyAreWithinTheirBounds) {
  for (const int threads : {2, 3, 16}) {
    CoreTeam team(threads, {}, microseconds(50));
    SCOPED_TRACE(std::to_string(threads) + " threads");
    ExpectBounds(MeasureSplitCosts(team, 50.0));
  }
}

// A helper on the caller's core, which the caller does not leave, comes late or not at all: measuring ends, within the bounds.
TEST(SplitCostsTest, AHelperOnTheCallersCoreIsNotWaitedForLong) {
  const int cpu = AllowedCpus()[0];
  std::thread([cpu] {
    StayOn({&cpu, 1});
    CoreTeam team(2, {cpu, cpu}, microseconds(50));
    ExpectBounds(MeasureSplitCosts(team, 50.0));
  }).join();
}

TEST(SplitCostsTest, PeopleAreTold) {
  EXPECT_EQ(Describe(SplitCosts{50, 300, 30e3}),
            "a step is split from 3.0 us on (a fork takes 0.3), sleeping helpers are woken from 60 "
            "us on (one "
            "takes 30)");
}

}  // namespace
}  // namespace cellbatch
