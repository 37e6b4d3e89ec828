#include "cells/device/cpu/split_costs.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "cells/device/cpu/stay_on.h"
#include "gtest/gtest.h"

namespace cellbatch {
namespace {

using std::chrono::microseconds;

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
    const SplitCosts costs = MeasureSplitCosts(team, 50.0);
    EXPECT_GE(costs.fork_ns, 100) << threads << " threads";
    EXPECT_LT(costs.fork_ns, 20e3);
    EXPECT_GE(costs.wake_ns, 2e3);
    EXPECT_LT(costs.wake_ns, 500e3);
  }
}

// All of its threads on one core, which the caller does not leave: what is not known is as it stands.
TEST(SplitCostsTest, OfHelpersThatDoNotComeNothingIsBelieved) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  std::thread([cpu] {
    StayOn({&cpu, 1});
    CoreTeam team(2, {cpu, cpu}, microseconds(50));
    const SplitCosts costs = MeasureSplitCosts(team, 50.0), usual;
    EXPECT_LE(costs.fork_ns, 20e3);
    EXPECT_GE(costs.fork_ns, 100);
    EXPECT_LE(costs.wake_ns, 500e3);
    EXPECT_GE(costs.wake_ns, std::min(usual.wake_ns, 2e3));
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
