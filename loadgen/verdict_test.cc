#include "loadgen/verdict.h"

#include <gtest/gtest.h>

#include <string>

namespace cellbatch {
namespace {

Summary GoodRun() {
  Summary summary;
  summary.offered = summary.sent = summary.completed = 2000;
  summary.seconds = 20;
  summary.offered_per_second = summary.completed_per_second = 100;
  summary.send_lag_p99 = 1'000'000;
  return summary;
}

std::string OnlyReason(const Summary& summary) {
  const Verdict verdict = Judge(summary, {}, "");
  return verdict.findings.size() == 1 ? verdict.findings[0].reason : "not one finding";
}

TEST(VerdictTest, ARunWithinEveryLimitIsValid) {
  EXPECT_TRUE(Judge(GoodRun(), {}, "").valid());
  EXPECT_FALSE(Judge(GoodRun(), {}, "").overload);
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
  const Verdict early = Judge(GoodRun(), {}, "65536 requests are in flight");
  EXPECT_EQ(early.findings[0].reason,
            "the schedule was not sent to its end: 65536 requests are in flight");
}

TEST(VerdictTest, TooFewAnswersNameTheDurationThatWouldDo) {
  Summary summary = GoodRun();
  summary.completed = 458;
  summary.completed_per_second = 22.9;
  const Verdict verdict = Judge(summary, {}, "");
  ASSERT_EQ(verdict.findings.size(), 1u);
  EXPECT_EQ(verdict.findings[0].reason, "458 answers, a p99 needs 459");
  EXPECT_EQ(verdict.findings[0].remedy, "measure for at least 23 s at this rate (--duration)");
  summary.completed = 459;
  EXPECT_TRUE(Judge(summary, {}, "").valid());
  summary.completed = 0;
  summary.completed_per_second = 0;
  EXPECT_EQ(Judge(summary, {}, "").findings.at(0).remedy,
            "see why the server answers nothing (cellbatch-client health)")
      << "no duration would do";
}

TEST(VerdictTest, RejectionsAreValidButMarked) {
  Summary summary = GoodRun();
  summary.rejected = 5;
  EXPECT_TRUE(Judge(summary, {}, "").valid());
  EXPECT_TRUE(Judge(summary, {}, "").overload);
}

TEST(VerdictTest, AnswersThatFallBehindTheOfferAreOverload) {
  Summary summary = GoodRun();
  // 2,000 are offered give or take 45, and four times that in 20 s are 8.9 a second; and 1 % of 100.
  summary.completed_per_second = 90;
  EXPECT_TRUE(Judge(summary, {}, "").overload);
  summary.completed_per_second = 91;  // chance
  EXPECT_FALSE(Judge(summary, {}, "").overload);
}

}  // namespace
}  // namespace cellbatch
