#include "server/grpc/frame_watch.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/testing/http2_frames.h"

namespace cellbatch {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

std::string Headers(uint32_t stream, char flags = http2::kEndHeaders, size_t bytes = 50) {
  return http2::Frame(http2::kHeaders, flags, stream, std::string(bytes, 'h'));
}
std::string Data(uint32_t stream, const std::string& body, char flags = http2::kNone) {
  return http2::Frame(http2::kData, flags, stream, body);
}
std::string Reset(uint32_t stream) {
  return http2::Frame(http2::kRstStream, http2::kNone, stream, http2::BigEndian(8, 4));
}
// The head of a message of so many bytes.
std::string Head(uint32_t bytes) { return std::string(1, '\0') + http2::BigEndian(bytes, 4); }

class FrameWatchTest : public ::testing::Test {
 protected:
  FrameWatchTest() { EXPECT_EQ(Take(http2::kPreface), FrameFault::kNone); }
  FrameFault Take(const std::string& bytes) { return watch_.Take(bytes, now_ns_); }
  FrameFault TakeAck() {
    watch_.Greeted();
    return Take(http2::Frame(http2::kSettings, http2::kAck, 0, ""));
  }

  int64_t now_ns_ = 1000 * kSecond;
  RateBound resets_of_all_{800};
  FrameBounds bounds_{.max_streams = 10,
                      .max_header_block_bytes = 100'000,
                      .max_resets_per_second = 100,
                      .max_message_bytes = 1 << 20};
  FrameWatch watch_{bounds_, resets_of_all_};
};

TEST_F(FrameWatchTest, ACallThatComesWholeLeavesNothing) {
  EXPECT_EQ(Take(Headers(1) + Data(1, http2::Message("abc"), http2::kEndStream)),
            FrameFault::kNone);
  EXPECT_EQ(watch_.unwhole(), Unwhole());
  EXPECT_EQ(watch_.open(), 0);
  EXPECT_EQ(watch_.OldestBegun(), FrameWatch::kNever);
}

TEST_F(FrameWatchTest, OfAStreamWithAWholeMessageNothingIsKeptThoughItStaysOpen) {
  Take(Headers(1) + Data(1, http2::Message("abc")));
  EXPECT_EQ(watch_.unwhole(), Unwhole());
  EXPECT_EQ(watch_.open(), 1);
  EXPECT_EQ(watch_.OldestBegun(), FrameWatch::kNever);
}

TEST_F(FrameWatchTest, WhatCameOfAMessageIsKeptUntilItIsWhole) {
  Take(Headers(1));
  EXPECT_EQ(watch_.unwhole().streams, 1);
  EXPECT_EQ(watch_.OldestBegun(), FrameWatch::kNever) << "no message has begun";
  const int64_t began = now_ns_;
  Take(Data(1, Head(1000)));
  now_ns_ += kSecond;
  Take(Data(1, std::string(999, 'x')));
  EXPECT_GE(watch_.unwhole().bytes, 999 + 5 + 50);
  EXPECT_LT(watch_.unwhole().bytes, 2000);
  EXPECT_EQ(watch_.OldestBegun(), began);
  Take(Data(1, "x"));
  EXPECT_EQ(watch_.unwhole(), Unwhole());
}

TEST_F(FrameWatchTest, APieceCountsForTheBufferThatItKeeps) {
  Take(Headers(1) + Data(1, Head(1000)));
  const int64_t before = watch_.unwhole().bytes;
  Take(http2::Frame(http2::kPing, http2::kNone, 0, std::string(8000, 'p')) + Data(1, "x"));
  EXPECT_GT(watch_.unwhole().bytes, before + 8000);
}

TEST_F(FrameWatchTest, AStreamThatEitherSideEndsIsForgotten) {
  Take(Headers(1) + Data(1, Head(1000)) + Headers(3) + Data(3, Head(1000)) + Headers(5) +
       Data(5, Head(1000)));
  EXPECT_EQ(watch_.open(), 3);
  watch_.Ended(3);
  Take(Reset(1));
  EXPECT_EQ(watch_.unwhole().streams, 1);
  Take(Data(5, "x", http2::kEndStream) + Data(3, "late"));
  EXPECT_EQ(watch_.unwhole(), Unwhole());
  EXPECT_EQ(watch_.open(), 0);
}

TEST_F(FrameWatchTest, AMessageThatGrpcRefusesIsNotWaitedFor) {
  Take(Headers(1) + Data(1, Head((1 << 20) + 1)) + Data(1, std::string(1000, 'x')));
  EXPECT_EQ(watch_.unwhole(), Unwhole());
  EXPECT_EQ(watch_.OldestBegun(), FrameWatch::kNever);
}

TEST_F(FrameWatchTest, BeforeSettingsAreAcknowledgedStreamsAreCountedThoughTheyEnd) {
  for (uint32_t i = 0; i < 10; ++i) {
    EXPECT_EQ(Take(Headers(2 * i + 1)), FrameFault::kNone);
    watch_.Ended(2 * i + 1);
  }
  EXPECT_EQ(Take(Headers(21)), FrameFault::kStreams);
}

TEST_F(FrameWatchTest, WhatAcknowledgesSettingsThatWereNotSentAcknowledgesNothing) {
  Take(http2::Frame(http2::kSettings, http2::kAck, 0, ""));
  watch_.Greeted();
  for (uint32_t i = 0; i < 10; ++i) EXPECT_EQ(Take(Headers(2 * i + 1)), FrameFault::kNone);
  EXPECT_EQ(Take(Headers(21)), FrameFault::kStreams);
}

TEST_F(FrameWatchTest, FromThenOnGrpcCountsThemAndNoMoreAreRememberedThanItHas) {
  TakeAck();
  for (uint32_t i = 0; i < 100; ++i) EXPECT_EQ(Take(Headers(2 * i + 1)), FrameFault::kNone);
  EXPECT_EQ(watch_.open(), 10);
  EXPECT_EQ(watch_.unwhole().streams, 10);
}

TEST_F(FrameWatchTest, AHeaderBlockIsBoundedOverItsFrames) {
  const auto more = [](size_t bytes) {
    return http2::Frame(http2::kContinuation, http2::kNone, 1, std::string(bytes, 'h'));
  };
  EXPECT_EQ(Take(Headers(1, http2::kNone, 16'384)), FrameFault::kNone);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Take(more(16'384)), FrameFault::kNone);
  EXPECT_EQ(Take(more(2000)), FrameFault::kHeaderBlock);
}

TEST_F(FrameWatchTest, ABlockOfManySmallFramesIsTooMuchWhateverTheirBytes) {
  FrameFault fault = Take(Headers(1, http2::kNone));
  int frames = 1;
  for (; fault == FrameFault::kNone && frames < 100; ++frames) {
    fault = Take(http2::Frame(http2::kContinuation, http2::kNone, 1, ""));
  }
  EXPECT_EQ(fault, FrameFault::kHeaderBlock);
  EXPECT_LT(frames, 10);
}

TEST_F(FrameWatchTest, WhatIsResetAtOnceIsBoundedByARateAndWhatWasOpenForAWhileIsNot) {
  TakeAck();
  uint32_t stream = 1;
  for (int i = 0; i < 200; ++i, stream += 2) {
    ASSERT_EQ(Take(Headers(stream) + Reset(stream)), FrameFault::kNone) << i;
  }
  EXPECT_EQ(Take(Headers(stream) + Reset(stream)), FrameFault::kResets);
}

TEST_F(FrameWatchTest, HeadersOfAStreamThatIsNotOpenCountAsThoughItWereOpenedAndReset) {
  ASSERT_EQ(Take(Headers(3)), FrameFault::kNone);
  for (int i = 0; i < 300; ++i) ASSERT_EQ(Take(Headers(3)), FrameFault::kNone) << "it is open";
  for (int i = 0; i < 200; ++i) ASSERT_EQ(Take(Headers(1)), FrameFault::kNone) << i;
  EXPECT_EQ(Take(Headers(1)), FrameFault::kResets);
}

TEST_F(FrameWatchTest, ManyStreamsThatWereOpenForAWhileMayBeResetAtOnce) {
  TakeAck();
  for (uint32_t i = 0; i < 5000; ++i) Take(Headers(2 * i + 1));
  now_ns_ += kSecond;
  for (uint32_t i = 0; i < 5000; ++i) ASSERT_EQ(Take(Reset(2 * i + 1)), FrameFault::kNone);
}

TEST_F(FrameWatchTest, WhereAllConnectionsResetTooMuchAnyWithAPartInItIsHungUpOn) {
  TakeAck();
  for (int i = 0; i < 1600; ++i) resets_of_all_.Add(now_ns_);
  uint32_t stream = 1;
  for (int i = 0; i < 20; ++i, stream += 2) {
    ASSERT_EQ(Take(Headers(stream) + Reset(stream)), FrameFault::kNone) << i;
  }
  EXPECT_EQ(Take(Headers(stream) + Reset(stream)), FrameFault::kResets);
}

TEST_F(FrameWatchTest, WhatIsNoHttp2IsPassedOver) {
  FrameWatch other(bounds_, resets_of_all_);
  EXPECT_EQ(other.Take("GET / HTTP/1.1\r\n\r\n" + std::string(100'000, '\1'), 0),
            FrameFault::kNone);
  EXPECT_EQ(other.opened(), 0);
}

}  // namespace
}  // namespace cellbatch
