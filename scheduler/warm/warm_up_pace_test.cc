#include "scheduler/warm/warm_up_pace.h"

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

constexpr int64_t kMilli = 1'000'000;

WarmUpPace::Seen At(int64_t ms, bool awake, int64_t others_ns = 0, int64_t warm_up_ns = 0) {
  return {ms * kMilli, awake, others_ns, warm_up_ns};
}

TEST(WarmUpPaceTest, AloneThereIsNoLimit) {
  WarmUpPace pace(1, At(0, false));
  for (int64_t ms = 0; ms < 100; ++ms) EXPECT_EQ(pace.Turn(At(ms, false, 0, ms)), 0u);
}

TEST(WarmUpPaceTest, BesideOthersATurnIsFollowedByThirtyTwoTimesAsLong) {
  WarmUpPace pace(1, At(0, false));
  EXPECT_EQ(pace.Turn(At(0, true)), 1u);
  EXPECT_EQ(pace.Turn(At(50, true)), 1u) << "nothing was run yet";
  EXPECT_EQ(pace.Turn(At(60, true, 0, 3 * kMilli)), 1u);
  EXPECT_EQ(pace.Turn(At(98, true, 0, 3 * kMilli)), 1u);
  EXPECT_EQ(pace.Turn(At(99, true, 0, 3 * kMilli)), 2u);
  EXPECT_EQ(pace.Turn(At(500, true, 0, 3 * kMilli)), 2u);
  EXPECT_EQ(pace.Turn(At(501, true, 0, 4 * kMilli)), 3u);
}

// Many a neighbour is asleep whenever one looks.
TEST(WarmUpPaceTest, ANeighbourThatWorkedWithinTheLastSecondIsThere) {
  WarmUpPace pace(1, At(0, false, 100));
  EXPECT_EQ(pace.Turn(At(500, false, 101)), 1u) << "it ran while the model was loaded";
  EXPECT_EQ(pace.Turn(At(1499, false, 101)), 1u);
  EXPECT_EQ(pace.Turn(At(1500, false, 101)), 0u);
  EXPECT_EQ(pace.Turn(At(1600, false, 102)), 2u) << "never a turn again that was used";
}

TEST(WarmUpPaceTest, DevicesThatWarmAtOncePauseNoLongerThanOne) {
  WarmUpPace pace(4, At(0, true));
  EXPECT_EQ(pace.Turn(At(0, true)), 1u);
  EXPECT_EQ(pace.Turn(At(32, true, 0, 4 * kMilli)), 1u);
  EXPECT_EQ(pace.Turn(At(33, true, 0, 4 * kMilli)), 2u);
}

// Time stamps may be coarse: tasks that took no time have been run, too.
TEST(WarmUpPaceTest, ATurnEndsHoweverLittleItTook) {
  WarmUpPace pace(4, At(0, true));
  WarmUpPace::Seen seen = At(0, true);
  EXPECT_EQ(pace.Turn(seen), 1u);
  seen.warm_up_ns = 1;
  EXPECT_EQ(pace.Turn(seen), 2u);
}

TEST(WarmUpPaceTest, WhereOnlyPausesPassTimeThereAreNone) {
  WarmUpPace pace(1, At(0, true));
  EXPECT_EQ(pace.Turn(At(0, true)), 1u);
  WarmUpPace::Seen seen = At(1, true, 0, kMilli);
  EXPECT_EQ(pace.Turn(seen), 1u);
  seen.stuck = true;
  EXPECT_EQ(pace.Turn(seen), 2u);
}

}  // namespace
}  // namespace cellbatch
