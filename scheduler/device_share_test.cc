#include "scheduler/device_share.h"

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

TEST(DeviceShareTest, ATaskIsChargedWhatItsLikeTookLastAndCorrected) {
  DeviceShare share(1, 2, 2.0);
  EXPECT_EQ(share.Charge(0, 1, 8), 0) << "nothing is known";
  share.Correct(0, 1, 8, 0, 1000);
  EXPECT_EQ(share.virtual_ns(), 500) << "its weight is 2";
  EXPECT_EQ(share.Charge(0, 1, 9), 1000);
  share.Correct(0, 1, 9, 1000, 1400);
  EXPECT_EQ(share.virtual_ns(), 1200);
  EXPECT_EQ(share.Charge(0, 0, 8), 0) << "of another type";
}

TEST(DeviceShareTest, WhoWakesBeginsWhereOthersAreAndWhoIsAwakeKeepsWhatItIsOwed) {
  DeviceShare share(1, 1, 1.0);
  EXPECT_FALSE(share.awake());
  share.Wake(500);
  EXPECT_EQ(share.virtual_ns(), 500);
  share.Wake(900);
  EXPECT_EQ(share.virtual_ns(), 500);
  share.Sleep();
  share.Wake(900);
  EXPECT_EQ(share.virtual_ns(), 900);
  share.Sleep();
  share.Wake(100);
  EXPECT_EQ(share.virtual_ns(), 900) << "what it had it had";
}

TEST(DeviceShareTest, ASizeNotSeenYetIsChargedAsTheNextSmallerOne) {
  DeviceShare share(1, 1, 1.0);
  share.Correct(0, 0, 1, 0, 100);
  share.Correct(0, 0, 16, 0, 700);
  EXPECT_EQ(share.Charge(0, 0, 8), 100);
  EXPECT_EQ(share.Charge(0, 0, 512), 700);
}

TEST(DeviceShareTest, EachMemoryHasItsOwnTimes) {
  DeviceShare share(2, 2, 1.0);
  share.Correct(0, 1, 4, 0, 100);
  share.Correct(1, 1, 4, 0, 900);
  EXPECT_EQ(share.Charge(0, 1, 4), 100);
  EXPECT_EQ(share.Charge(1, 1, 4), 900);
  EXPECT_EQ(share.Charge(1, 0, 4), 0);
}

}  // namespace
}  // namespace cellbatch
