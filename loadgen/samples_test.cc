#include "loadgen/samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

namespace cellbatch {
namespace {

// The definition, counted out: the smallest value such that at least p of all are not above it.
int64_t SlowPercentile(const std::vector<int64_t>& values, Tail tail) {
  std::vector<int64_t> candidates = values;
  std::sort(candidates.begin(), candidates.end());
  for (int64_t candidate : candidates) {
    const int64_t not_above = std::count_if(values.begin(), values.end(),
                                            [&](int64_t value) { return value <= candidate; });
    const int64_t count = static_cast<int64_t>(values.size());
    if (not_above * tail.whole >= count * (tail.whole - tail.part)) {
      return candidate;
    }
  }
  return candidates.back();
}

TEST(PercentileTest, IsTheDefinitionForEveryCount) {
  const uint64_t seed = 20;
  RecordProperty("seed", static_cast<int>(seed));
  std::mt19937_64 random(seed);
  for (size_t count = 1; count <= 300; ++count) {
    std::vector<int64_t> values(count);
    for (int64_t& value : values) {
      value = static_cast<int64_t>(random() % 50);  // many ties
    }
    std::vector<int64_t> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    for (Tail tail : kTails) {
      ASSERT_EQ(PercentileOf(sorted, tail), SlowPercentile(values, tail))
          << tail.name << " of " << count << " values, seed " << seed;
    }
  }
}

TEST(PercentileTest, TheValuesNeededAreThoseOfTheTable) {
  EXPECT_EQ(ValuesNeeded(kTails[0]), 7);
  EXPECT_EQ(ValuesNeeded(kTails[1]), 44);
  EXPECT_EQ(ValuesNeeded(kTails[2]), 459);
  EXPECT_EQ(ValuesNeeded(kTails[3]), 4603);
}

TEST(DescribeTest, APercentileThatTheCountCannotCarryIsNotGiven) {
  const Distribution few = Describe(std::vector<int64_t>(458, 5));
  EXPECT_TRUE(few.percentiles[1].has_value());
  EXPECT_FALSE(few.percentiles[2].has_value());
  const Distribution enough = Describe(std::vector<int64_t>(459, 5));
  EXPECT_EQ(enough.percentiles[2], 5);
  EXPECT_FALSE(enough.percentiles[3].has_value());
  EXPECT_TRUE(Describe(std::vector<int64_t>(4603, 5)).percentiles[3].has_value());
}

TEST(DescribeTest, MeanAndMaximumAreExact) {
  const Distribution distribution = Describe({4, 1, 10});
  EXPECT_EQ(distribution.count, 3u);
  EXPECT_EQ(distribution.mean, 5);
  EXPECT_EQ(distribution.max, 10);
  EXPECT_EQ(Describe({}).count, 0u);
}

TEST(SamplesTest, EveryOutcomeIsCountedOnceAndWarmUpIsLeftOut) {
  Samples samples({0, 10, 20, 30, 40, 50, 60}, 15);
  EXPECT_EQ(samples.first_measured(), 2u);
  const SampleOutcome outcomes[] = {SampleOutcome::kFailed,    SampleOutcome::kCompleted,
                                    SampleOutcome::kCompleted, SampleOutcome::kRejected,
                                    SampleOutcome::kFailed,    SampleOutcome::kCancelled,
                                    SampleOutcome::kPending};
  for (size_t i = 0; i < samples.size(); ++i) {
    samples.Sent(i, samples.intended(i) + 2);
    if (outcomes[i] != SampleOutcome::kPending) {
      samples.Done(i, samples.intended(i) + 9, outcomes[i]);
    }
  }
  EXPECT_EQ(samples.sent(), 7u);
  EXPECT_EQ(samples.finished(), 6u);
  EXPECT_EQ(samples.so_far(SampleOutcome::kFailed), 2u);
  const Summary summary = Summarize(samples, std::vector<int32_t>(7, 24), 1);
  EXPECT_EQ(summary.offered, 5u);
  EXPECT_EQ(summary.sent, 5u);
  EXPECT_EQ(summary.completed, 1u);
  EXPECT_EQ(summary.rejected, 1u);
  EXPECT_EQ(summary.failed, 1u);
  EXPECT_EQ(summary.cancelled, 1u);
  EXPECT_EQ(summary.lost, 1u);
  EXPECT_EQ(summary.response.max, 9) << "from the intended time";
  EXPECT_EQ(summary.service.max, 7) << "from the actual send";
  EXPECT_EQ(summary.send_lag_p99, 2);
  EXPECT_EQ(summary.send_lag.count, 5u) << "of every request sent, whatever became of it";
}

TEST(SamplesTest, ARequestThatWasNeverSentIsOfferedButNotLost) {
  Samples samples({0, 10}, 0);
  samples.Sent(0, 0);
  samples.Done(0, 5, SampleOutcome::kCompleted);
  const Summary summary = Summarize(samples, {1, 1}, 0.5);
  EXPECT_EQ(summary.offered, 2u);
  EXPECT_EQ(summary.sent, 1u);
  EXPECT_EQ(summary.seconds, 0.5);
  EXPECT_EQ(summary.offered_per_second, 4);
  EXPECT_EQ(summary.completed_per_second, 2);
  EXPECT_EQ(summary.lost, 0u);
  EXPECT_EQ(samples.at(1).sent, -1);
}

// Four were planned, 10 ns apart; the sender ended 25 ns after the first of them was due, with two of three sent.
TEST(SamplesTest, WhatWasDueAfterTheSenderEndedIsNotOffered) {
  Samples samples({0, 10, 20, 30, 40}, 10);
  for (size_t i = 0; i < 3; ++i) {
    samples.Sent(i, samples.intended(i) + 1);
    samples.Done(i, samples.intended(i) + 6, SampleOutcome::kCompleted);
  }
  const Summary summary = Summarize(samples, {1, 1, 1, 1, 1}, 25e-9);
  EXPECT_EQ(summary.offered, 3u) << "the one that was due is, the one after that is not";
  EXPECT_EQ(summary.sent, 2u);
  EXPECT_EQ(summary.completed, 2u);
  EXPECT_NEAR(summary.offered_per_second, 3 / 25e-9, 1);
  EXPECT_NEAR(summary.completed_per_second, 2 / 25e-9, 1);
}

TEST(SamplesTest, WhatWasSentWasOfferedHoweverTheClocksAreRead) {
  Samples samples({0, 10}, 0);
  samples.Sent(0, 0);
  samples.Sent(1, 10);
  EXPECT_EQ(Summarize(samples, {1, 1}, 9e-9).offered, 2u);
}

TEST(SamplesTest, APhaseOfNoLengthHasNoRates) {
  Samples samples({0, 10}, 20);
  const Summary summary = Summarize(samples, {1, 1}, 0);
  EXPECT_EQ(summary.offered_per_second, 0);
  EXPECT_EQ(summary.completed_per_second, 0);
  EXPECT_EQ(Summarize(Samples({0, 30}, 20), {1, 1}, 0).offered, 0u) << "due after it ended";
}

TEST(SamplesTest, ARunThatEndedInItsWarmUpMeasuredNothing) {
  Samples samples({0, 10}, 20);
  samples.Sent(0, 5);
  samples.Done(0, 7, SampleOutcome::kCompleted);
  const Summary summary = Summarize(samples, {1, 1}, 1);
  EXPECT_EQ(summary.offered, 0u);
  EXPECT_EQ(summary.completed_per_second, 0);
  EXPECT_EQ(summary.send_lag_p99, 0);
  EXPECT_TRUE(summary.by_length.empty());
}

TEST(SamplesTest, LatenciesAreGroupedByLength) {
  Samples samples({0, 0, 0, 0, 0}, 0);
  const std::vector<int32_t> lengths = {8, 9, 33, 330, 1};
  for (size_t i = 0; i < lengths.size(); ++i) {
    samples.Sent(i, 0);
    samples.Done(i, lengths[i] * 10, SampleOutcome::kCompleted);
  }
  const Summary summary = Summarize(samples, lengths, 1);
  ASSERT_EQ(summary.by_length.size(), 4u);
  EXPECT_EQ(summary.by_length[0].shortest, 1);
  EXPECT_EQ(summary.by_length[0].longest, 8);
  EXPECT_EQ(summary.by_length[0].response.count, 2u);
  EXPECT_EQ(summary.by_length[0].response.max, 80);
  EXPECT_EQ(summary.by_length[1].shortest, 9);
  EXPECT_EQ(summary.by_length[3].response.max, 3300);
}

TEST(SamplesTest, APhaseBeginsWhenTheWarmUpEndsNotWithItsFirstRequest) {
  Samples samples({0, 500}, 100);
  const int64_t done[] = {150, 550};
  for (size_t i = 0; i < samples.size(); ++i) {
    samples.Sent(i, samples.intended(i));
    samples.Done(i, done[i], SampleOutcome::kCompleted);
  }
  const Summary summary = Summarize(samples, {1, 1}, 500e-9);
  EXPECT_NEAR(summary.completed_per_second, 2 / 500e-9, 1);
}

TEST(SamplesTest, ThroughputCountsTheAnswersThatCameInThePhase) {
  // Two of warm-up, answered before the phase and as it begins; three of the phase, one answered as it ends.
  Samples samples({0, 10, 1000, 1010, 1020}, 1000);
  const int64_t done[] = {999, 1000, 1'000'000'999, 1'000'001'000, 2'000'000'000};
  for (size_t i = 0; i < samples.size(); ++i) {
    samples.Sent(i, samples.intended(i));
    samples.Done(i, done[i], SampleOutcome::kCompleted);
  }
  const Summary summary = Summarize(samples, std::vector<int32_t>(5, 1), 1);
  EXPECT_EQ(summary.completed, 3u);
  EXPECT_EQ(summary.completed_per_second, 2);
}

TEST(SamplesTest, OfFailuresThoseThatAreAnswersWereKeptUpWith) {
  Samples samples({0, 10, 20, 30, 40}, 0);
  const SampleOutcome outcomes[] = {SampleOutcome::kCompleted, SampleOutcome::kFailed,
                                    SampleOutcome::kUnanswered, SampleOutcome::kRejected,
                                    SampleOutcome::kFailed};
  for (size_t i = 0; i < samples.size(); ++i) {
    samples.Sent(i, samples.intended(i));
    // The last one comes when the phase is over.
    samples.Done(i, i == 4 ? 1'000'000'000 : samples.intended(i) + 5, outcomes[i]);
  }
  const Summary summary = Summarize(samples, std::vector<int32_t>(5, 1), 1);
  EXPECT_EQ(summary.failed, 3u) << "who got no answer has failed, too";
  EXPECT_EQ(summary.rejected, 1u);
  EXPECT_EQ(summary.completed_per_second, 1);
  EXPECT_EQ(summary.answered_per_second, 2);
}

TEST(SamplesTest, WordsCountWhereTheWholeAnswerWasRight) {
  Samples samples({0, 10, 20, 30}, 10);
  for (size_t i = 0; i < 4; ++i) {
    samples.Sent(i, samples.intended(i) + 1);
  }
  samples.Words(0, 5, 2);  // in the warm-up
  samples.Words(1, 14, 3);
  samples.Words(2, 22, 4);
  for (size_t i = 0; i < 4; ++i) {
    samples.Done(i, 50, i == 2 ? SampleOutcome::kFailed : SampleOutcome::kCompleted);
  }
  const Summary summary = Summarize(samples, {1, 1, 1, 1}, 1);
  EXPECT_EQ(summary.first_word.count, 1u) << "request 3 said no word, 2 failed";
  EXPECT_EQ(summary.first_word.max, 4);
  EXPECT_EQ(summary.words, 3u);
}

TEST(SamplesTest, APartsSummaryIsThatOfItsRequestsAlone) {
  Samples samples({0, 10, 20, 30}, 0);
  for (size_t i = 0; i < 4; ++i) {
    samples.Sent(i, samples.intended(i));
    samples.Done(i, samples.intended(i) + 100 * static_cast<int64_t>(i + 1),
                 i == 3 ? SampleOutcome::kRejected : SampleOutcome::kCompleted);
  }
  const std::vector<uint32_t> parts = {0, 1, 0, 1};
  const Summary even = SummarizePart(samples, {1, 1, 1, 1}, 1, parts, 0);
  const Summary odd = SummarizePart(samples, {1, 1, 1, 1}, 1, parts, 1);
  EXPECT_EQ(even.completed, 2u);
  EXPECT_EQ(even.response.max, 300);
  EXPECT_EQ(even.rejected, 0u);
  EXPECT_EQ(odd.offered, 2u);
  EXPECT_EQ(odd.completed, 1u);
  EXPECT_EQ(odd.rejected, 1u);
  EXPECT_EQ(odd.response.max, 200);
  EXPECT_EQ(even.completed_per_second, 2);
  EXPECT_EQ(odd.completed_per_second, 1) << "a rejection is no answer";
}

TEST(SamplesTest, SeveralThreadsMayComplete) {
  Samples samples(std::vector<int64_t>(4000, 0), 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&samples, t] {
      for (size_t i = t; i < samples.size(); i += 4) {
        samples.Done(i, 7, t == 0 ? SampleOutcome::kRejected : SampleOutcome::kCompleted);
      }
    });
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    samples.Sent(i, 1);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(samples.finished(), 4000u);
  const Summary summary = Summarize(samples, std::vector<int32_t>(4000, 1), 1);
  EXPECT_EQ(summary.completed, 3000u);
  EXPECT_EQ(summary.rejected, 1000u);
}

}  // namespace
}  // namespace cellbatch
