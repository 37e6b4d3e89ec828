#include "server/trace/tracer.h"

#include <gtest/gtest.h>

#include <string>

namespace cellbatch {
namespace {

class NoSink final : public SpanSink {
 public:
  void Take(std::vector<Span>) override {}
};

const std::string kSampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const std::string kUnsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

class TracerTest : public testing::Test {
 protected:
  int Begun(Tracer& tracer, const std::string& traceparent, int requests) {
    int begun = 0;
    for (int i = 0; i < requests; ++i) begun += tracer.Begin(traceparent).has_value() ? 1 : 0;
    return begun;
  }
  NoSink sink_;
};

TEST_F(TracerTest, TheCallersFlagDecidesAndItsTraceGoesOn) {
  Tracer tracer({.rate = 1'000'000}, sink_);
  Begun(tracer, "", 1);  // the one in a million
  EXPECT_EQ(Begun(tracer, kSampled, 100), 100);
  EXPECT_EQ(Begun(tracer, kUnsampled, 100), 0);
  const auto place = tracer.Begin(kSampled);
  EXPECT_EQ(Digits(place->trace), "0af7651916cd43dd8448eb211c80319c");
  ASSERT_TRUE(place->parent.has_value());
  EXPECT_EQ(Digits(*place->parent), "b7ad6b7169203331");
  EXPECT_NE(Digits(place->span), "b7ad6b7169203331");
}

TEST_F(TracerTest, WithoutAGoodTraceparentOneInSoManyIsTraced) {
  Tracer tracer({.rate = 10}, sink_);
  EXPECT_EQ(Begun(tracer, "", 100), 10);
  EXPECT_EQ(Begun(tracer, "nonsense", 100), 10);
  tracer.SetRules({.rate = 1});
  EXPECT_EQ(Begun(tracer, "", 100), 100);
  EXPECT_FALSE(tracer.Begin("")->parent.has_value());
}

TEST_F(TracerTest, ThoseOfOurOwnChoiceEndWithTheCountAndThoseOfCallersDoNot) {
  Tracer tracer({.rate = 1, .count = 3}, sink_);
  EXPECT_EQ(Begun(tracer, "", 100), 3);
  EXPECT_EQ(tracer.rules().count, 0);
  EXPECT_FALSE(tracer.BeginFailed("").has_value());
  EXPECT_EQ(Begun(tracer, kSampled, 10), 10);
}

TEST_F(TracerTest, AFailedOneIsTracedThoughItWasPassedOverUnlessItsCallerSaidNo) {
  Tracer tracer({.rate = 1'000'000}, sink_);
  Begun(tracer, "", 1);
  EXPECT_FALSE(tracer.Begin("").has_value());
  EXPECT_TRUE(tracer.BeginFailed("").has_value());
  EXPECT_FALSE(tracer.BeginFailed(kUnsampled).has_value());
}

TEST_F(TracerTest, OffNothingIsTraced) {
  Tracer tracer({.on = false, .rate = 1}, sink_);
  EXPECT_EQ(Begun(tracer, "", 10) + Begun(tracer, kSampled, 10), 0);
  EXPECT_FALSE(tracer.BeginFailed("").has_value());
}

}  // namespace
}  // namespace cellbatch
