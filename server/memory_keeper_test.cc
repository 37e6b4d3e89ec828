#include "server/memory_keeper.h"

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST(KeptMemoryTest, WhatIsInUseIsNotAskedBackHoweverMuchItIs) {
  KeptMemory kept;
  kept.GaveBack(100 * kMiB, 80 * kMiB);
  EXPECT_FALSE(kept.Due(2000 * kMiB, 1970 * kMiB));
}

TEST(KeptMemoryTest, WhatWasFreedAndIsResidentIsAskedBackOnce) {
  KeptMemory kept;
  kept.GaveBack(100 * kMiB, 80 * kMiB);
  EXPECT_TRUE(kept.Due(2000 * kMiB, 90 * kMiB));
  kept.GaveBack(400 * kMiB, 90 * kMiB);  // pages that are in part in use stay
  EXPECT_FALSE(kept.Due(400 * kMiB, 90 * kMiB));
  EXPECT_TRUE(kept.Due(500 * kMiB, 90 * kMiB));
}

TEST(KeptMemoryTest, WhatWasFreedBeforeTheFirstLookIsAskedBackThoughMuchIsInUseAndNotResident) {
  KeptMemory kept;
  EXPECT_TRUE(kept.Due(185 * kMiB, 314 * kMiB));
  kept.GaveBack(60 * kMiB, 314 * kMiB);
  EXPECT_FALSE(kept.Due(91 * kMiB, 314 * kMiB));
}

// A look while a crowd is there asks back what it can; then the crowd goes, and nothing more is resident than before.
TEST(KeptMemoryTest, WhatWasInUseWhenItWasLastAskedBackIsAskedBackWhenItIsFreed) {
  KeptMemory kept;
  kept.GaveBack(130 * kMiB, 100 * kMiB);
  EXPECT_FALSE(kept.Due(130 * kMiB, 100 * kMiB));
  EXPECT_TRUE(kept.Due(130 * kMiB, 40 * kMiB));
}

TEST(KeptMemoryTest, WhatStayedInVainOnceIsAskedAgainWhenItHadBeenUsedMeanwhile) {
  KeptMemory kept;
  kept.GaveBack(400 * kMiB, 90 * kMiB);
  EXPECT_FALSE(kept.Due(440 * kMiB, 430 * kMiB));
  EXPECT_TRUE(kept.Due(440 * kMiB, 100 * kMiB));
}

}  // namespace
}  // namespace cellbatch
