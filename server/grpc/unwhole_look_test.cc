#include "server/grpc/unwhole_look.h"

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

constexpr int64_t kSecond = 1'000'000'000, kNow = 1000 * kSecond;
constexpr UnwholeBounds kBounds{
    .max_streams = 100, .max_bytes = 1000, .message_timeout_ns = 60 * kSecond};

UnwholeSeen Seen(int64_t streams, int64_t bytes, int64_t age_ns) {
  return {{.streams = streams, .bytes = bytes}, kNow - age_ns};
}

TEST(UnwholeLookTest, WithinTheBoundsNobodyGoes) {
  EXPECT_FALSE(WhoIsTooMuch({}, kBounds, kNow));
  EXPECT_FALSE(WhoIsTooMuch({Seen(50, 500, 60 * kSecond), Seen(50, 500, 0)}, kBounds, kNow));
}

TEST(UnwholeLookTest, OfThoseThatAreSlowTheOneThatKeepsMostMakesRoomThoughAQuickOneKeepsMore) {
  const auto goes = WhoIsTooMuch(
      {Seen(1, 100, 5 * kSecond), Seen(1, 200, 2 * kSecond), Seen(1, 701, kSecond / 10)}, kBounds,
      kNow);
  ASSERT_TRUE(goes);
  EXPECT_EQ(goes->which, 1);
  EXPECT_EQ(goes->reason, GrpcCut::kUnfinishedBytes);
  EXPECT_EQ(goes->seen, 1001);
}

TEST(UnwholeLookTest, WhereNobodyIsSlowTheOneThatKeepsMostGoes) {
  const auto goes = WhoIsTooMuch({Seen(1, 500, 0), Seen(1, 600, 0)}, kBounds, kNow);
  ASSERT_TRUE(goes);
  EXPECT_EQ(goes->which, 1);
}

TEST(UnwholeLookTest, AMessageThatTakesTooLongEndsItsConnection) {
  const auto goes =
      WhoIsTooMuch({Seen(1, 10, 59 * kSecond), Seen(1, 10, 61 * kSecond)}, kBounds, kNow);
  ASSERT_TRUE(goes);
  EXPECT_EQ(goes->which, 1);
  EXPECT_EQ(goes->reason, GrpcCut::kMessageTimeout);
  EXPECT_EQ(goes->seen, 61 * kSecond);
}

TEST(UnwholeLookTest, AStreamOnWhichNoMessageHasBegunMayBeOpenForEver) {
  EXPECT_FALSE(WhoIsTooMuch({{{.streams = 1, .bytes = 100}, FrameWatch::kNever}}, kBounds, kNow));
}

TEST(UnwholeLookTest, OfStreamsThatBringNothingWhoeverHasMostMakesRoom) {
  const auto goes = WhoIsTooMuch({Seen(40, 1, 0), Seen(61, 1, 0)}, kBounds, kNow);
  ASSERT_TRUE(goes);
  EXPECT_EQ(goes->which, 1);
  EXPECT_EQ(goes->reason, GrpcCut::kStreams);
  EXPECT_EQ(goes->seen, 101);
}

}  // namespace
}  // namespace cellbatch
