#include "server/requests/access.h"

#include <string>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(AccessTest, ATokenAsksOfItsModelsAloneAndOfAllWhereNoneIsNamed) {
  AccessUse use("search");
  const Access some({.models = {"tagger", "parser"}}, use);
  EXPECT_TRUE(some.MayAsk("parser").ok());
  EXPECT_TRUE(some.Covers("parser"));
  EXPECT_FALSE(some.Covers("words"));
  EXPECT_EQ(some.MayAsk("words").ToString(),
            "PERMISSION_DENIED: token search may not ask of model \"words\" (models of --tokens)");
  EXPECT_TRUE(absl::IsPermissionDenied(some.MayAsk("")));
  const Access every({}, use);
  EXPECT_TRUE(every.MayAsk("words").ok());
  EXPECT_TRUE(every.MayAsk("").ok());
  EXPECT_TRUE(every.Covers("words"));
}

TEST(AccessTest, OnlyWhoMayControlDoes) {
  AccessUse use("operator");
  EXPECT_TRUE(absl::IsPermissionDenied(Access({}, use).MayControl()));
  EXPECT_TRUE(Access({.may_control = true}, use).MayControl().ok());
}

TEST(AccessTest, ASecondsWorthOfRequestsMayComeAtOnceAndThenAsManyASecond) {
  AccessUse use("batch");
  const Access access({.requests_per_second = 10}, use);
  int64_t now = 100 * kSecond;
  std::optional<int32_t> pushback;
  int taken = 0;
  while (access.TakeRequests(1, now, pushback).ok()) ++taken;
  EXPECT_EQ(taken, 11);  // the one that comes when the last of them is paid is let in
  EXPECT_EQ(pushback, 101);
  now += kSecond / 10 - 1;
  EXPECT_EQ(access.TakeRequests(1, now, pushback).ToString(),
            "RESOURCE_EXHAUSTED: token batch may make 10 requests a second (requests_per_second of "
            "--tokens)");
  now += 1;
  EXPECT_TRUE(access.TakeRequests(1, now, pushback).ok());
  EXPECT_FALSE(access.TakeRequests(1, now, pushback).ok());
  // A long rest is worth a second, not more; many at once are paid for by who comes next.
  now += 60 * kSecond;
  EXPECT_TRUE(access.TakeRequests(30, now, pushback).ok());
  EXPECT_FALSE(access.TakeRequests(1, now + kSecond, pushback).ok());
  EXPECT_TRUE(access.TakeRequests(1, now + 2 * kSecond, pushback).ok());
}

TEST(AccessTest, CallsAreCountedByHowTheyEnded) {
  AccessUse use("search");
  const Access access({}, use);
  access.Count(absl::OkStatus());
  access.Count(absl::PermissionDeniedError(""));
  access.Count(absl::ResourceExhaustedError(""));
  access.Count(absl::ResourceExhaustedError(""));
  access.Count(absl::InvalidArgumentError(""));
  const int64_t expected[] = {1, 1, 2, 1};
  for (size_t i = 0; i < kNumAccessOutcomes; ++i) EXPECT_EQ(use.ended[i].load(), expected[i]) << i;
}

TEST(AccessTest, BoundsOfItsOwnHoldWhateverOthersHaveAndNameTheToken) {
  Admission admission({.max_requests = 100, .max_cells = 1000, .max_bytes = 10'000});
  AccessUse use("search");
  use.party.SetLimits({.most = {.requests = 2, .cells = 50, .bytes = 0}});
  const Parties of = {.client = &use.party};
  Ticket first, second, third;
  Refusal refusal;
  ASSERT_TRUE(admission.Admit({1, 0, 100}, 0, first, refusal, of));
  ASSERT_TRUE(admission.Admit({1, 0, 100}, 0, second, refusal, of));
  EXPECT_FALSE(admission.Admit({1, 0, 100}, 0, third, refusal, of));
  EXPECT_EQ(refusal.reason, Rejection::kTokenLimit);
  EXPECT_GE(refusal.pushback_ms, 0);
  EXPECT_EQ(refusal.status.ToString(),
            "RESOURCE_EXHAUSTED: token search has 2 requests in flight, 1 asked for, its "
            "max_requests is 2 (--tokens)");
  EXPECT_FALSE(admission.Admit({0, 51, 0}, 0, third, refusal, of));
  EXPECT_EQ(refusal.pushback_ms, -1) << "it can never fit";
  second.Release();
  EXPECT_TRUE(admission.Admit({1, 0, 100}, 0, third, refusal, of));
  EXPECT_EQ(use.party.InFlight().requests, 2);
  use.party.SetLimits({});
  EXPECT_TRUE(admission.Admit({1, 0, 100}, 0, second, refusal, of));
}

TEST(AccessTest, EachOfItsBoundsHoldsToTheLastOneThatItAllows) {
  Admission admission({.max_requests = 100, .max_cells = 1000, .max_bytes = 10'000});
  AccessUse use("search");
  use.party.SetLimits({.most = {.requests = 2, .cells = 50, .bytes = 300}});
  const Parties of = {.client = &use.party};
  Ticket all, more;
  Refusal refusal;
  ASSERT_TRUE(admission.Admit({2, 50, 300}, 0, all, refusal, of));
  const auto refused = [&](const Demand& demand) {
    EXPECT_FALSE(admission.Admit(demand, 0, more, refusal, of));
    EXPECT_EQ(refusal.reason, Rejection::kTokenLimit);
    return std::string(refusal.status.message());
  };
  EXPECT_EQ(refused({1, 0, 0}),
            "token search has 2 requests in flight, 1 asked for, its max_requests is 2 (--tokens)");
  EXPECT_EQ(refused({0, 1, 0}),
            "token search has 50 cells in flight, 1 asked for, its max_cells is 50 (--tokens)");
  EXPECT_EQ(refused({0, 0, 1}),
            "token search has 300 bytes in flight, 1 asked for, its max_bytes is 300 (--tokens)");
}

TEST(AccessTest, AShareOfItsOwnTakesThePlaceOfThatOfAll) {
  Admission admission(
      {.max_requests = 100, .max_cells = 1000, .max_bytes = 10'000, .client_share_percent = 100});
  AccessUse use("batch");
  use.party.SetLimits({.share_percent = 50});
  const Parties of = {.client = &use.party};
  Ticket held, one;
  Refusal refusal;
  int64_t taken = 0;
  while (admission.Admit({1, 0, 0}, 0, one, refusal, of)) {
    held.Join(std::move(one));
    one = Ticket();
    ++taken;
  }
  EXPECT_EQ(refusal.reason, Rejection::kClientShare);
  EXPECT_EQ(taken, 50);
}

}  // namespace
}  // namespace cellbatch
