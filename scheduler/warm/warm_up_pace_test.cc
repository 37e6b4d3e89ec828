#include "scheduler/warm/warm_up_pace.h"

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

constexpr int64_t kMilli = 1'000'000;

WarmUpPace::Seen At(int64_t ms, bool awake, int64_t others_ns = 0, int64_t warm_up_ns = 0) {
  return {ms * kMilli, awake, others_ns, warm_up_ns};
}

uint32_t Turn(WarmUpPace& pace, const WarmUpPace::Seen& seen) { return pace.Look(seen).turn; }

TEST(WarmUpPaceTest, AloneThereIsNoLimit) {
  WarmUpPace pace(1, At(0, false));
  for (int64_t ms = 0; ms < 100; ++ms) EXPECT_EQ(Turn(pace, At(ms, false, 0, ms)), 0u);
}

TEST(WarmUpPaceTest, BesideOthersATurnIsFollowedByThirtyTwoTimesAsLong) {
  WarmUpPace pace(1, At(0, false));
  EXPECT_EQ(Turn(pace, At(0, true)), 1u);
  EXPECT_EQ(Turn(pace, At(50, true)), 1u) << "nothing was run yet";
  EXPECT_EQ(Turn(pace, At(60, true, 0, 3 * kMilli)), 1u);
  EXPECT_EQ(Turn(pace, At(98, true, 0, 3 * kMilli)), 1u);
  EXPECT_EQ(Turn(pace, At(99, true, 0, 3 * kMilli)), 2u);
  EXPECT_EQ(Turn(pace, At(500, true, 0, 3 * kMilli)), 2u);
  EXPECT_EQ(Turn(pace, At(501, true, 0, 4 * kMilli)), 3u);
}

TEST(WarmUpPaceTest, ATaskWaitsForAnIdleDeviceHalfAsLongAsTheTurnBeforeItPaused) {
  WarmUpPace pace(1, At(0, true));
  const auto when_idle = [&](int64_t ms, int64_t warm_up_ms) {
    return pace.Look(At(ms, true, 0, warm_up_ms * kMilli)).when_idle;
  };
  EXPECT_FALSE(when_idle(0, 0)) << "nobody knows yet what is long";
  EXPECT_FALSE(when_idle(104, 0));
  EXPECT_TRUE(when_idle(105, 3)) << "the next turn: this one lasted its 33 times";
  EXPECT_TRUE(when_idle(105 + 47, 3));
  EXPECT_FALSE(when_idle(105 + 48, 3));
}

// The neighbours' shares are the same whether a task found an idle device at once, late or never.
TEST(WarmUpPaceTest, WaitingForAnIdleDeviceIsPartOfTheTurn) {
  for (const int64_t waited_ms : {1, 20, 64}) {
    WarmUpPace pace(1, At(0, true));
    EXPECT_EQ(Turn(pace, At(0, true)), 1u);
    EXPECT_EQ(Turn(pace, At(66, true, 0, 2 * kMilli)), 2u);
    const int64_t done_ms = 66 + waited_ms + 2;
    if (done_ms < 66 + 66) {
      EXPECT_EQ(Turn(pace, At(done_ms, true, 0, 4 * kMilli)), 2u) << waited_ms;
      EXPECT_EQ(Turn(pace, At(66 + 65, true, 0, 4 * kMilli)), 2u) << waited_ms;
    }
    EXPECT_EQ(Turn(pace, At(66 + 66, true, 0, 4 * kMilli)), 3u) << waited_ms;
  }
}

// What ran without limit says nothing about one task.
TEST(WarmUpPaceTest, BesideWhoComesLateTheFirstTaskDoesNotWait) {
  WarmUpPace pace(1, At(0, false));
  EXPECT_EQ(pace.Look(At(500, false, 0, 400 * kMilli)), WarmUpPace::Leave());
  EXPECT_EQ(pace.Look(At(501, true, 0, 400 * kMilli)), (WarmUpPace::Leave{1, false}));
}

// Many a neighbour is asleep whenever one looks.
TEST(WarmUpPaceTest, ANeighbourThatWorkedWithinTheLastSecondIsThere) {
  WarmUpPace pace(1, At(0, false, 100));
  EXPECT_EQ(Turn(pace, At(500, false, 101)), 1u) << "it ran while the model was loaded";
  EXPECT_EQ(Turn(pace, At(1499, false, 101)), 1u);
  EXPECT_EQ(Turn(pace, At(1500, false, 101)), 0u);
  EXPECT_EQ(Turn(pace, At(1600, false, 102)), 2u) << "never a turn again that was used";
}

TEST(WarmUpPaceTest, ANeighbourThatWasAwakeBeforeTheModelWasLoadedIsThere) {
  WarmUpPace pace(1, At(0, true));
  EXPECT_EQ(Turn(pace, At(999, false)), 1u);
  EXPECT_EQ(Turn(pace, At(1000, false)), 0u);
}

TEST(WarmUpPaceTest, DevicesThatWarmAtOncePauseNoLongerThanOne) {
  WarmUpPace pace(4, At(0, true));
  EXPECT_EQ(Turn(pace, At(0, true)), 1u);
  EXPECT_EQ(Turn(pace, At(32, true, 0, 4 * kMilli)), 1u);
  EXPECT_EQ(Turn(pace, At(33, true, 0, 4 * kMilli)), 2u);
}

// Time stamps may be coarse: tasks that took no time have been run, too.
TEST(WarmUpPaceTest, ATurnEndsHoweverLittleItTook) {
  WarmUpPace pace(4, At(0, true));
  WarmUpPace::Seen seen = At(0, true);
  EXPECT_EQ(Turn(pace, seen), 1u);
  seen.warm_up_ns = 1;
  EXPECT_EQ(Turn(pace, seen), 2u);
}

TEST(WarmUpPaceTest, WhereOnlyPausesPassTimeThereAreNone) {
  WarmUpPace pace(1, At(0, true));
  EXPECT_EQ(Turn(pace, At(0, true)), 1u);
  WarmUpPace::Seen seen = At(1, true, 0, kMilli);
  EXPECT_EQ(Turn(pace, seen), 1u);
  seen.stuck = true;
  EXPECT_EQ(pace.Look(seen), (WarmUpPace::Leave{2, false}));
}

TEST(WarmUpPaceTest, WhereNothingElsePassesTimeNobodyWaitsForAnIdleDevice) {
  WarmUpPace pace(1, At(0, true));
  EXPECT_EQ(Turn(pace, At(0, true)), 1u);
  EXPECT_EQ(pace.Look(At(33, true, 0, kMilli)), (WarmUpPace::Leave{2, true}));
  WarmUpPace::Seen seen = At(34, true, 0, kMilli);
  seen.stuck = true;
  EXPECT_EQ(pace.Look(seen), (WarmUpPace::Leave{2, false}));
}

}  // namespace
}  // namespace cellbatch
