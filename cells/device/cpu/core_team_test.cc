#include "cells/device/cpu/core_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "cells/device/cpu/step_split.h"

namespace cellbatch {
namespace {

using std::chrono::microseconds;

// Every block once, whatever the number of threads, and everything it wrote is seen afterwards.
void RunManySteps(CoreTeam& team, int steps, bool wake) {
  std::vector<int> counts(97, 0);  // plain ints: a race is a finding of the thread sanitizer
  for (int s = 0; s < steps; ++s) {
    const int blocks = 1 + s % 97;
    const auto count = [&](int block, int thread) {
      ASSERT_LT(thread, team.threads());
      ++counts[static_cast<size_t>(block)];
    };
    team.Run(blocks, wake, count, s % 3 == 0 ? CoreTeam::From::kLast : CoreTeam::From::kFirst);
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

// Of what a thread runs of its own range. (Of others' it takes what they would come to last.)
TEST(CoreTeamTest, BlocksAreRunFromTheEndThatIsAsked) {
  for (const int threads : {1, 3}) {
    CoreTeam team(threads, {}, microseconds(100));
    for (const CoreTeam::From from : {CoreTeam::From::kFirst, CoreTeam::From::kLast}) {
      for (int step = 0; step < 50; ++step) {
        constexpr int kBlocks = 30;
        std::vector<std::vector<int>> ran(static_cast<size_t>(threads));  // by thread, of its own
        const auto note = [&](int block, int thread) {
          const Part home = PartOf(kBlocks, threads, thread);
          if (block < home.begin || block >= home.end) return;
          ran[static_cast<size_t>(thread)].push_back(block);
        };
        team.Run(kBlocks, true, note, from);
        if (threads == 1) {
          EXPECT_EQ(ran[0].size(), size_t{kBlocks});
        }
        for (int t = 0; t < threads; ++t) {
          const std::vector<int>& own = ran[static_cast<size_t>(t)];
          const Part home = PartOf(kBlocks, threads, t);
          for (int i = 0; i < static_cast<int>(own.size()); ++i) {
            const int next = from == CoreTeam::From::kFirst ? home.begin + i : home.end - 1 - i;
            ASSERT_EQ(own[static_cast<size_t>(i)], next) << "thread " << t << " of " << threads;
          }
        }
      }
    }
  }
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

TEST(CoreTeamTest, MoreThreadsThanCoresStillFinish) {
  CoreTeam team(16, {}, microseconds(20));
  RunManySteps(team, 300, true);
}

TEST(CoreTeamTest, StepsAreRunWhereTheirNumbersWrap) {
  for (const uint32_t before : {0xffff'ff00u, 0x7fff'ff00u, (1u << 20) - 200}) {
    CoreTeam team(3, {}, microseconds(100), before);
    RunManySteps(team, 500, true);
  }
}

// A step of fewer blocks than threads leaves some without; the next step has one for each again.
TEST(CoreTeamTest, AThreadThatHadNoBlockForLongHasItsNextOne) {
  CoreTeam team(8, {}, microseconds(0), (1u << 20) - 700);
  for (int s = 0; s < 1000; ++s) team.Run(2, false, [](int, int) {});
  RunManySteps(team, 97, true);
}

TEST(CoreTeamTest, ATeamThatNeverRanEnds) {
  for (int i = 0; i < 20; ++i) CoreTeam team(3, {}, microseconds(i % 2 == 0 ? 0 : 1000));
}

// Each thread waits inside its block until the other has one, so that the helper certainly computes.
TEST(CoreTeamTest, HelpersFlushDenormals) {
  CoreTeam team(2, {}, microseconds(0));
  std::atomic<int> there{0};
  bool flushed[2] = {};
  team.Run(2, true, [&](int, int thread) {
    ++there;
    while (there.load() < 2) std::this_thread::yield();
    volatile float small = 1e-20f;
    flushed[thread] = small * small == 0.0f;
  });
  EXPECT_TRUE(flushed[1]);
  EXPECT_FALSE(flushed[0]) << "the caller's own mode is the caller's";
}

TEST(CoreTeamTest, ACpuThatIsNotThereIsRefusedNotFatal) {
  CoreTeam team(2, {0, 1 << 20}, microseconds(50));
  RunManySteps(team, 100, true);
}

}  // namespace
}  // namespace cellbatch
