#include "server/grpc/slow_lane.h"

#include <future>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/clock.h"

namespace cellbatch {
namespace {

using Room = SlowLane::Room;

class SlowLaneTest : public ::testing::Test {
 protected:
  // Its thread stands still in a call of so many bytes until Go.
  void Stop(int64_t bytes) {
    std::promise<void> begun;
    EXPECT_EQ(lane_->TryRun(bytes,
                            [this, &begun] {
                              begun.set_value();
                              go_.get_future().wait();
                            }),
              Room::kYes);
    begun.get_future().wait();
  }
  void Go() { go_.set_value(); }
  // What was taken until now is done when this returns.
  void Drain() {
    std::promise<void> through;
    lane_->Run([&through] { through.set_value(); });
    through.get_future().wait();
  }
  Room Call(int64_t bytes, int mark = 0) {
    return lane_->TryRun(bytes, [this, mark] { done_.push_back(mark); });
  }

  SteadyClock clock_;
  std::promise<void> go_;
  std::vector<int> done_;  // the lane's; read after Drain
  std::unique_ptr<SlowLane> lane_ =
      std::make_unique<SlowLane>(SlowLimits{.max_calls = 3, .max_bytes = 1000}, clock_);
};

TEST_F(SlowLaneTest, BeyondTheCountNothingIsTakenUntilOneIsThrough) {
  Stop(1);
  EXPECT_EQ(Call(1, 1), Room::kYes);
  EXPECT_EQ(Call(1, 2), Room::kYes);
  EXPECT_EQ(Call(1, 3), Room::kNoCalls) << "the one under way is one of three";
  Go();
  Drain();
  EXPECT_EQ(Call(1, 4), Room::kYes);
  Drain();
  EXPECT_EQ(done_, (std::vector<int>{1, 2, 4})) << "in their order, and the refused one never";
}

TEST_F(SlowLaneTest, BeyondTheBytesOnlyWhatStillFitsIsTaken) {
  Stop(600);
  EXPECT_EQ(Call(401), Room::kNoBytes);
  EXPECT_EQ(Call(400), Room::kYes);
  EXPECT_EQ(Call(1), Room::kNoBytes);
  Go();
  Drain();
  EXPECT_EQ(Call(1000), Room::kYes) << "all are given back";
  Drain();
}

TEST_F(SlowLaneTest, OneAloneMayHaveMoreThanAllBytes) {
  Stop(5000);
  EXPECT_EQ(Call(1), Room::kNoBytes);
  Go();
  Drain();
  EXPECT_EQ(Call(5000), Room::kYes);
  Drain();
}

TEST_F(SlowLaneTest, WhatCallsHaveLeftToDoRunsBehindThemThoughItIsFull) {
  Stop(1);
  EXPECT_EQ(Call(1, 1), Room::kYes);
  EXPECT_EQ(Call(1, 2), Room::kYes);
  lane_->Run([this] { done_.push_back(3); });
  Go();
  Drain();
  EXPECT_EQ(done_, (std::vector<int>{1, 2, 3}));
}

TEST_F(SlowLaneTest, WhatWaitsWhenItEndsIsDoneFirst) {
  Stop(1);
  EXPECT_EQ(Call(1, 1), Room::kYes);
  Go();
  lane_.reset();
  EXPECT_EQ(done_, (std::vector<int>{1}));
}

// A clock that says that every call takes eight seconds.
class SlowClock final : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_ += 8'000'000'000; }

 private:
  mutable int64_t now_ns_ = 0;  // the lane's thread's
};

TEST(SlowLaneHintTest, WhoIsRefusedComesBackAfterAboutWhatWaitsTakes) {
  const SlowClock clock;
  std::promise<void> begun, go;
  SlowLane lane({.max_calls = 2, .max_bytes = 1000}, clock);
  EXPECT_LE(lane.RetryMs(), 10) << "nothing is known of any call";
  std::promise<void> first;
  EXPECT_EQ(lane.TryRun(1, [] {}), Room::kYes);
  lane.Run([&first] { first.set_value(); });
  first.get_future().wait();
  EXPECT_EQ(lane.TryRun(1,
                        [&] {
                          begun.set_value();
                          go.get_future().wait();
                        }),
            Room::kYes);
  begun.get_future().wait();
  EXPECT_EQ(lane.TryRun(1, [] {}), Room::kYes);
  // One of eight seconds counts as one of the last eight: two calls of a second each, half to one and a half times.
  const int32_t hint = lane.RetryMs();
  EXPECT_GE(hint, 1000);
  EXPECT_LE(hint, 3000);
  EXPECT_NE(lane.RetryMs(), hint) << "not all together";
  go.set_value();
}

}  // namespace
}  // namespace cellbatch
