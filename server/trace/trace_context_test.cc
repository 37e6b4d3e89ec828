#include "server/trace/trace_context.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace cellbatch {
namespace {

constexpr const char* kTrace = "0af7651916cd43dd8448eb211c80319c";
constexpr const char* kSpan = "b7ad6b7169203331";

std::string With(const std::string& version, const std::string& trace, const std::string& span,
                 const std::string& flags) {
  return version + "-" + trace + "-" + span + "-" + flags;
}

TEST(TraceContextTest, AGoodTraceparentIsReadAsItWasWritten) {
  const auto context = ParseTraceparent(With("00", kTrace, kSpan, "01"));
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(Digits(context->trace), kTrace);
  EXPECT_EQ(Digits(context->span), kSpan);
  EXPECT_TRUE(context->sampled);
  EXPECT_FALSE(ParseTraceparent(With("00", kTrace, kSpan, "00"))->sampled);
  EXPECT_FALSE(ParseTraceparent(With("00", kTrace, kSpan, "fe"))->sampled);
  EXPECT_TRUE(ParseTraceparent(With("00", kTrace, kSpan, "ff"))->sampled);
}

TEST(TraceContextTest, WhatIsNotAsTheRecommendationSaysIsAsIfItHadNotCome) {
  const std::string zeros32(32, '0'), zeros16(16, '0');
  const std::string good = With("00", kTrace, kSpan, "01");
  for (const std::string& text :
       {std::string(), std::string("00"), good.substr(0, 54), good + "-", good + "-x", good + "0",
        " " + good, With("ff", kTrace, kSpan, "01"), With("0g", kTrace, kSpan, "01"),
        With("00", zeros32, kSpan, "01"), With("00", kTrace, zeros16, "01"),
        With("00", "0AF7651916CD43DD8448EB211C80319C", kSpan, "01"),
        With("00", kTrace, "B7ad6b7169203331", "01"), With("00", kTrace, kSpan, "0x"),
        With("00", std::string(kTrace).substr(1) + "-", kSpan, "01"),
        With("cc", kTrace, kSpan, "01") + "x", std::string(55, '\0'), std::string(55, '-')}) {
    EXPECT_FALSE(ParseTraceparent(text).has_value()) << text;
  }
}

TEST(TraceContextTest, OfLaterVersionsWhatTheyShareIsRead) {
  for (const char* more : {"", "-", "-what the future brings"}) {
    const auto context = ParseTraceparent(With("cc", kTrace, kSpan, "01") + more);
    ASSERT_TRUE(context.has_value()) << more;
    EXPECT_EQ(Digits(context->trace), kTrace);
  }
}

TEST(TraceContextTest, MadeIdsAreNotZeroAndNoTwoAreAlike) {
  std::set<std::string> ids;
  for (int i = 0; i < 10'000; ++i) {
    ids.insert(Digits(NewTraceId()));
    ids.insert(Digits(NewSpanId()));
  }
  EXPECT_EQ(ids.size(), 20'000u);
  EXPECT_EQ(ids.count(std::string(32, '0')) + ids.count(std::string(16, '0')), 0u);
}

}  // namespace
}  // namespace cellbatch
