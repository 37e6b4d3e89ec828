#include "cells/device/cpu/core_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

namespace cellbatch {
namespace {

using std::chrono::microseconds;

// Every block once, whatever the number of threads, and everything it wrote is seen afterwards.
void RunManySteps(CoreTeam& team, int steps, bool wake) {
  std::vector<int> counts(97, 0);  // plain ints: a race is a finding of the thread sanitizer
  for (int s = 0; s < steps; ++s) {
    const int blocks = 1 + s % 97;
    team.Run(blocks, wake, [&](int block, int thread) {
      ASSERT_LT(thread, team.threads());
      ++counts[static_cast<size_t>(block)];
    });
  }
  int expected = 0;
  for (int s = 0; s < steps; ++s) expected += 1 + s % 97;
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), expected);
}

TEST(CoreTeamTest, OneThreadRunsEveryBlockItself) {
  CoreTeam team(1, {}, microseconds(50));
  EXPECT_EQ(team.threads(), 1);
  RunManySteps(team, 500, true);
}

TEST(CoreTeamTest, SpinningHelpersRunEveryBlockOnce) {
  CoreTeam team(2, {}, std::chrono::seconds(10));
  RunManySteps(team, 3000, false);
}

TEST(CoreTeamTest, HelpersThatParkAtOnceLoseNoStep) {
  CoreTeam team(3, {}, microseconds(0));
  RunManySteps(team, 2000, true);
}

TEST(CoreTeamTest, ParkedHelpersThatNobodyWakesAreNotWaitedFor) {
  CoreTeam team(4, {}, microseconds(0));
  RunManySteps(team, 2000, false);
}

TEST(CoreTeamTest, WhileTheCallerWaitsItDoesItsIdleWorkAndOnlyIt) {
  CoreTeam team(2, {}, std::chrono::seconds(10));
  int calls = 0;  // plain: another thread's call is a finding of the thread sanitizer
  std::atomic<bool> helped = false;
  // The helper's block ends only once the caller was seen idle; a block of the caller's waits for the helper.
  std::atomic<int> seen = 0;
  team.set_idle_work([&] { seen = ++calls; });
  while (!helped) {
    team.Run(2, true, [&](int /*block*/, int thread) {
      if (thread == 0) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
        while (!helped && std::chrono::steady_clock::now() < until) std::this_thread::yield();
        return;
      }
      helped = true;
      while (seen == 0) std::this_thread::yield();
    });
  }
  EXPECT_GT(calls, 0);
  RunManySteps(team, 500, true);
}

TEST(CoreTeamTest, MoreThreadsThanCoresStillFinish) {
  CoreTeam team(16, {}, microseconds(20));
  RunManySteps(team, 300, true);
}

TEST(CoreTeamTest, ATeamThatNeverRanEnds) {
  for (int i = 0; i < 20; ++i) CoreTeam team(3, {}, microseconds(i % 2 == 0 ? 0 : 1000));
}

TEST(CoreTeamTest, ACpuThatIsNotThereIsRefusedNotFatal) {
  EXPECT_FALSE(CoreTeam::PinThisThread(-1));
  EXPECT_FALSE(CoreTeam::PinThisThread(1 << 20));
  CoreTeam team(2, {0, 1 << 20}, microseconds(50));
  RunManySteps(team, 100, true);
}

}  // namespace
}  // namespace cellbatch
