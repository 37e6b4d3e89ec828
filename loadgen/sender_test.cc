// The open loop in virtual time: what a stall of the server, or of the sender, does to the figures.

#include "loadgen/sender.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <random>
#include <vector>

#include "loadgen/arrivals.h"
#include "loadgen/samples.h"
#include "loadgen/verdict.h"

namespace cellbatch {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1000 * kMs;
constexpr int64_t kStart = 77 * kSecond;

class FakeClock final : public SendClock {
 public:
  int64_t Now() override { return now_; }
  void WaitUntil(int64_t at_ns) override {
    now_ = std::max(now_, at_ns);
    if (waited_) waited_();
  }
  void Pass(int64_t ns) { now_ += ns; }
  void AfterEachWait(std::function<void()> waited) { waited_ = std::move(waited); }

 private:
  int64_t now_ = 0;
  std::function<void()> waited_;
};

class FakeTarget final : public SendTarget {
 public:
  explicit FakeTarget(std::function<bool(size_t)> send) : send_(std::move(send)) {}
  bool Send(size_t index) override { return send_(index); }

 private:
  std::function<bool(size_t)> send_;
};

struct Outcomes {
  SendEnd end;
  Summary summary;
  std::vector<Samples::Record> records;
};

// A thousand requests a second for three seconds, each given to `answer`, which says when it was
// done (ns from the run's start).
Outcomes RunAtConstantRate(const std::function<int64_t(FakeClock&, int64_t)>& answer) {
  FakeClock clock;
  Samples samples(MakeArrivals({.process = ArrivalProcess::kConstant, .rate = 1000, .seconds = 3}),
                  0);
  std::atomic<bool> stop{false};
  FakeTarget target([&](size_t i) {
    const int64_t done = answer(clock, clock.Now() - kStart);
    samples.Words(i, done - kMs / 2, 3);
    samples.Done(i, done, SampleOutcome::kCompleted);
    return true;
  });
  Outcomes outcomes;
  outcomes.end = SendOnSchedule(kStart, samples, clock, target, stop);
  outcomes.summary = Summarize(samples, std::vector<int32_t>(samples.size(), 1), 3);
  for (size_t i = 0; i < samples.size(); ++i) {
    outcomes.records.push_back(samples.at(i));
  }
  return outcomes;
}

TEST(SenderTest, AServerThatStallsASecondShowsLatenciesThatFallFromASecond) {
  const Outcomes outcomes = RunAtConstantRate([](FakeClock&, int64_t now) {
    const bool stalled = now >= kSecond && now < 2 * kSecond;
    return stalled ? 2 * kSecond : now + kMs;
  });
  EXPECT_EQ(outcomes.end, SendEnd::kAll);
  int suffered = 0;
  for (const Samples::Record& record : outcomes.records) {
    EXPECT_EQ(record.sent, record.intended) << "the stall did not hold the sender back";
    if (record.intended >= kSecond && record.intended < 2 * kSecond) {
      ++suffered;
      EXPECT_EQ(record.done - record.intended, 2 * kSecond - record.intended);
    }
  }
  EXPECT_EQ(suffered, 1000);
  EXPECT_TRUE(Judge(outcomes.summary, {}, {}).valid());
}

TEST(SenderTest, ASenderHeldBackForASecondHidesNothingAndIsInvalid) {
  bool held = false;
  const Outcomes outcomes = RunAtConstantRate([&held](FakeClock& clock, int64_t now) {
    if (!held && now >= kSecond) {
      held = true;
      clock.Pass(kSecond);  // as when a full socket makes the send wait
      return 2 * kSecond;
    }
    return now + kMs;
  });
  // Timed from the actual send, only one of 3,000 requests would look slow…
  const auto slow = [](int64_t ns) { return ns > 10 * kMs; };
  const auto count = [&](auto time) {
    return std::count_if(outcomes.records.begin(), outcomes.records.end(), time);
  };
  EXPECT_EQ(count([&](const auto& r) { return slow(r.done - r.sent); }), 1);
  // … from the intended time, all that were due in that second do.
  EXPECT_EQ(count([&](const auto& r) { return slow(r.done - r.intended); }), 991);
  EXPECT_GT(*outcomes.summary.response.percentiles[2], 900 * kMs);
  EXPECT_LT(*outcomes.summary.service.percentiles[2], 2 * kMs);
  const Verdict verdict = Judge(outcomes.summary, {}, {});
  ASSERT_EQ(verdict.findings.size(), 1u);
  EXPECT_EQ(verdict.findings[0].reason, "send lag p99 is 969 ms, more than 1.00 ms");
}

TEST(SenderTest, AFirstWordIsTimedFromWhenItsRequestWasDueNotFromWhenItWasSent) {
  bool held = false;
  const Outcomes outcomes = RunAtConstantRate([&held](FakeClock& clock, int64_t now) {
    if (!held && now >= kSecond) {
      held = true;
      clock.Pass(kSecond);
      return 2 * kSecond;
    }
    return now + kMs;
  });
  const Distribution& first = outcomes.summary.first_word;
  EXPECT_EQ(first.count, 3000u);
  EXPECT_EQ(*first.percentiles[0], kMs / 2);
  EXPECT_GT(*first.percentiles[2], 900 * kMs) << "the stall is in it";
  EXPECT_EQ(outcomes.summary.words, 9000u);
}

TEST(SenderTest, NothingIsSentBeforeItIsDue) {
  FakeClock clock;
  Samples samples(MakeArrivals({.rate = 100, .seconds = 5, .seed = 4}), 0);
  std::atomic<bool> stop{false};
  FakeTarget target([&](size_t i) {
    EXPECT_EQ(clock.Now(), kStart + samples.intended(i));
    return true;
  });
  EXPECT_EQ(SendOnSchedule(kStart, samples, clock, target, stop), SendEnd::kAll);
  EXPECT_EQ(samples.sent(), samples.size());
}

TEST(SenderTest, WithoutRoomForAnotherRequestTheRunEnds) {
  FakeClock clock;
  Samples samples({0, 1, 2, 3}, 0);
  std::atomic<bool> stop{false};
  FakeTarget target([](size_t i) { return i < 2; });
  EXPECT_EQ(SendOnSchedule(kStart, samples, clock, target, stop), SendEnd::kNoRoom);
  EXPECT_EQ(samples.sent(), 2u);
}

TEST(SenderTest, AStoppedRunSendsNoMore) {
  FakeClock clock;
  Samples samples({0, 1, 2, 3}, 0);
  std::atomic<bool> stop{false};
  FakeTarget target([&stop](size_t i) {
    stop = i == 1;
    return true;
  });
  EXPECT_EQ(SendOnSchedule(kStart, samples, clock, target, stop), SendEnd::kStopped);
  EXPECT_EQ(samples.sent(), 2u);
}

TEST(SenderTest, AStoppedRunDoesNotWaitUntilItsNextRequestIsDue) {
  FakeClock clock;
  clock.Pass(kStart);
  Samples samples({0, 3600 * kSecond}, 0);
  std::atomic<bool> stop{false};
  int sent = 0;
  FakeTarget target([&](size_t) {
    ++sent;
    return true;
  });
  clock.AfterEachWait([&] { stop = clock.Now() >= kStart + 10 * kSecond; });
  EXPECT_EQ(SendOnSchedule(kStart, samples, clock, target, stop), SendEnd::kStopped);
  EXPECT_EQ(sent, 1);
  EXPECT_LT(clock.Now(), kStart + 11 * kSecond) << "and not the hour";
}

TEST(SteadySendClockTest, WaitUntilNeverReturnsEarly) {
  SteadySendClock clock;
  for (int64_t ns : {int64_t{-5}, int64_t{0}, int64_t{20'000}, kMs}) {
    const int64_t at = clock.Now() + ns;
    clock.WaitUntil(at);
    EXPECT_GE(clock.Now(), at);
  }
}

TEST(WakeMarginTest, IsBeyondNinetyNineSleepsOfAHundredAndNoFurther) {
  std::mt19937_64 random(5);
  for (const int64_t late_ns : {4'000, 20'000, 50'000}) {
    WakeMargin margin;
    const auto late = [&] {
      return static_cast<int64_t>(random() % static_cast<uint64_t>(late_ns));
    };
    for (int i = 0; i < 5'000; ++i) margin.Woke(late());
    int missed = 0;
    int64_t sum_ns = 0;
    for (int i = 0; i < 10'000; ++i) {
      const int64_t ns = late();
      missed += ns > margin.ns() ? 1 : 0;
      sum_ns += margin.ns();
      margin.Woke(ns);
    }
    EXPECT_LE(missed, 200) << late_ns;
    EXPECT_LE(sum_ns / 10'000, late_ns + 10'000) << late_ns;
  }
}

TEST(WakeMarginTest, HasBounds) {
  WakeMargin margin;
  for (int i = 0; i < 10'000; ++i) margin.Woke(1'000'000'000);
  EXPECT_EQ(margin.ns(), WakeMargin::kMostNs);
  for (int i = 0; i < 10'000; ++i) margin.Woke(0);
  EXPECT_EQ(margin.ns(), WakeMargin::kLeastNs);
}

}  // namespace
}  // namespace cellbatch
