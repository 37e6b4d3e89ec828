#include "loadgen/verdict.h"

#include <gtest/gtest.h>

#include <string>

namespace cellbatch {
namespace {

Summary GoodRun() {
  Summary summary;
  summary.offered = summary.sent = summary.completed = 2000;
  summary.seconds = 20;
  summary.offered_per_second = summary.completed_per_second = summary.answered_per_second = 100;
  summary.send_lag_p99 = 1'000'000;
  return summary;
}

std::string OnlyReason(const Summary& summary) {
  const Verdict verdict = Judge(summary, {}, {});
  return verdict.findings.size() == 1 ? verdict.findings[0].reason : "not one finding";
}

TEST(VerdictTest, ARunWithinEveryLimitIsValid) {
  EXPECT_TRUE(Judge(GoodRun(), {}, {}).valid());
  EXPECT_FALSE(Judge(GoodRun(), {}, {}).overload);
}

TEST(VerdictTest, EachLimitMakesARunInvalidByItself) {
  Summary late = GoodRun();
  late.send_lag_p99 = 1'100'000;
  EXPECT_EQ(OnlyReason(late), "send lag p99 is 1.10 ms, more than 1.00 ms");
  Summary lost = GoodRun();
  lost.lost = 1;
  EXPECT_EQ(OnlyReason(lost), "1 requests were never answered");
  Summary failed = GoodRun();
  failed.failed = 1;
  EXPECT_EQ(OnlyReason(failed), "1 requests failed");
  const Verdict early = Judge(GoodRun(), {}, {SendEnd::kNoRoom, 65536});
  ASSERT_EQ(early.findings.size(), 1u);
  EXPECT_EQ(early.findings[0].reason,
            "the schedule was not sent to its end: 65536 requests were in flight");
  EXPECT_EQ(early.findings[0].remedy,
            "lower --rate, or raise --most-outstanding if the server is meant to queue so many");
}

TEST(VerdictTest, OfARunThatWasStoppedNeitherRateNorServerIsBlamed) {
  Summary summary = GoodRun();
  summary.completed = 354;
  summary.seconds = 1.8;
  summary.completed_per_second = summary.answered_per_second = 50;
  const Verdict verdict = Judge(summary, {}, {SendEnd::kStopped, 65536});
  ASSERT_EQ(verdict.findings.size(), 1u) << "it had no time for 459 answers";
  EXPECT_EQ(verdict.findings[0].reason, "the schedule was not sent to its end: it was stopped");
  EXPECT_EQ(verdict.findings[0].remedy,
            "let it run to its end: this is of the 1.80 s measured until then");
  EXPECT_FALSE(verdict.overload);
  summary.rejected = 1;
  EXPECT_TRUE(Judge(summary, {}, {SendEnd::kStopped, 65536}).overload) << "its server was full";
  summary.seconds = summary.completed_per_second = summary.offered_per_second = 0;
  summary.offered = summary.sent = summary.completed = summary.rejected = 0;
  const Verdict warming = Judge(summary, {}, {SendEnd::kStopped, 65536});
  ASSERT_EQ(warming.findings.size(), 1u);
  EXPECT_EQ(warming.findings[0].remedy, "let it run to its end: it had measured nothing yet");
}

// What is in flight as the sender ends is missing from what was answered: of a short phase, most of it.
TEST(VerdictTest, WhetherTheServerKeptUpIsOnlySaidOfAScheduleThatWasSentToItsEnd) {
  Summary summary = GoodRun();
  summary.completed_per_second = summary.answered_per_second = 50;
  EXPECT_TRUE(Judge(summary, {}, {SendEnd::kAll, 9}).overload);
  EXPECT_FALSE(Judge(summary, {}, {SendEnd::kNoRoom, 9}).overload);
  EXPECT_FALSE(Judge(summary, {}, {SendEnd::kStopped, 9}).overload);
  summary.completed = 0;
  summary.completed_per_second = summary.answered_per_second = 0;
  EXPECT_EQ(Judge(summary, {}, {SendEnd::kNoRoom, 9}).findings.size(), 2u)
      << "a server that answers nothing is worth a look";
  summary.seconds = 0;
  EXPECT_EQ(Judge(summary, {}, {SendEnd::kNoRoom, 9}).findings.size(), 1u)
      << "but in the warm-up nothing was counted";
  EXPECT_FALSE(Judge(summary, {}, {}).valid()) << "no answers are never enough";
}

TEST(VerdictTest, TooFewAnswersNameTheDurationThatWouldDo) {
  Summary summary = GoodRun();
  summary.completed = 458;
  summary.completed_per_second = 22.9;
  const Verdict verdict = Judge(summary, {}, {});
  ASSERT_EQ(verdict.findings.size(), 1u);
  EXPECT_EQ(verdict.findings[0].reason, "458 answers, --min-answers asks for 459, as a p99 needs");
  const VerdictLimits more{.most_send_lag_p99_ns = 1'000'000, .least_answers = 1000};
  EXPECT_EQ(Judge(summary, more, {}).findings.at(0).reason,
            "458 answers, --min-answers asks for 1000")
      << "that is no p99's need";
  EXPECT_EQ(verdict.findings[0].remedy, "measure for at least 23 s at this rate (--duration)");
  summary.completed = 459;
  EXPECT_TRUE(Judge(summary, {}, {}).valid());
  summary.completed = 0;
  summary.completed_per_second = summary.answered_per_second = 0;
  EXPECT_EQ(Judge(summary, {}, {}).findings.at(0).remedy,
            "see why the server answers nothing (cellbatch-client health)")
      << "no duration would do";
  summary.answered_per_second = 100;
  EXPECT_EQ(Judge(summary, {}, {}).findings.at(0).remedy,
            "see the errors: the server answers with nothing else");
  summary.offered = 0;
  EXPECT_EQ(Judge(summary, {}, {}).findings.at(0).remedy,
            "raise --rate or --duration: no request was due");
}

TEST(VerdictTest, RejectionsAreValidButMarked) {
  Summary summary = GoodRun();
  summary.rejected = 5;
  EXPECT_TRUE(Judge(summary, {}, {}).valid());
  EXPECT_TRUE(Judge(summary, {}, {}).overload);
}

TEST(VerdictTest, AnswersThatFallBehindTheOfferAreOverload) {
  Summary summary = GoodRun();
  // 2,000 are offered give or take 45, and four times that in 20 s are 8.9 a second; and 1 % of 100.
  summary.completed_per_second = summary.answered_per_second = 90;
  EXPECT_TRUE(Judge(summary, {}, {}).overload);
  summary.completed_per_second = summary.answered_per_second = 91;  // chance
  EXPECT_FALSE(Judge(summary, {}, {}).overload);
}

TEST(VerdictTest, AServerThatAnswersEveryRequestWithAnErrorAtOnceKeepsUp) {
  Summary summary = GoodRun();
  summary.completed = 0;
  summary.completed_per_second = 0;
  summary.failed = 2000;
  EXPECT_FALSE(Judge(summary, {}, {}).valid());
  EXPECT_FALSE(Judge(summary, {}, {}).overload);
}

}  // namespace
}  // namespace cellbatch
