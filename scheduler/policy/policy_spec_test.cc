// Claims about policies by name: every one of the family has its own, and can be made.
#include "scheduler/policy/policy_spec.h"

#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/policy/decider.h"
#include "scheduler/policy/make_rules.h"
#include "tests/testing/allocation_count.h"

namespace cellbatch {
namespace {

TEST(PolicySpecTest, EveryPolicyHasANameOfItsOwnAndIsMadeByIt) {
  std::set<std::string_view> names, reasons;
  for (const PolicyKind kind : kPolicyKinds) {
    EXPECT_EQ(PolicyKindOf(Name(kind)), kind);
    names.insert(Name(kind));
    PolicySpec spec;
    spec.kind = kind;
    const auto policy = MakePolicy(spec, 3);
    ASSERT_TRUE(policy.ok()) << Name(kind) << ": " << policy.status();
    EXPECT_EQ((*policy)->repeats_type(), kind == PolicyKind::kCellular) << Name(kind);
    EXPECT_EQ((*policy)->picks_depth(), kind == PolicyKind::kDepth) << Name(kind);
    reasons.insert((*policy)->reasons().front());
  }
  EXPECT_EQ(names.size(), kPolicyKinds.size());
  EXPECT_EQ(reasons.size(), kPolicyKinds.size() - 1) << "both agendas have the same reason";
  EXPECT_EQ(PolicyKindOf("Cellular"), std::nullopt);
}

TEST(PolicySpecTest, NoDecisionAllocates) {
  std::vector<TypeView> views(8);
  for (size_t t = 0; t < views.size(); ++t) {
    views[t].type = CellTypeId(static_cast<int64_t>(t));
    views[t].max_batch = 512;
    views[t].nodes.total = views[t].nodes.remaining = views[t].nodes.heads = 1000;
    views[t].nodes.tops = views[t].nodes.tallest = 100;
  }
  for (const PolicyKind kind : kPolicyKinds) {
    PolicySpec spec;
    spec.kind = kind;
    spec.encoding = {StateEncoding::Kind::kMax, 4, /*lowering=*/true};
    const Decider decider(*MakePolicy(spec, views.size()), 20);
    const int64_t before = testing::AllocationsOfThisThread();
    for (int32_t i = 1; i < 97; ++i) {
      for (size_t t = 0; t < views.size(); ++t)
        views[t].ready = i * static_cast<int32_t>(t + 1) % 97;
      EXPECT_TRUE(decider.Decide(views).has_value());
    }
    EXPECT_EQ(testing::AllocationsOfThisThread(), before) << Name(kind);
  }
}

TEST(PolicySpecTest, AnFsmWithoutRoomOrWithABadTableIsNotMade) {
  PolicySpec spec;
  spec.kind = PolicyKind::kFsm;
  EXPECT_TRUE(MakePolicy(spec, StateEncoding::kMostTypes).ok());
  EXPECT_EQ(MakePolicy(spec, StateEncoding::kMostTypes + 1).status().message(),
            "24 cell types; a state has room for 23");
  spec.rules = {{StateKey{}, CellTypeId(0)}};
  EXPECT_FALSE(MakePolicy(spec, 3).ok());
}

TEST(PolicySpecTest, WhatAPolicyWasGivenIsWhatItDecidesBy) {
  std::vector<TypeView> views(6);
  for (size_t t = 0; t < views.size(); ++t) {
    views[t].type = CellTypeId(static_cast<int64_t>(t));
    views[t].ready = 1;
    // All that is ready of each lowers the bound; the tallest is the first, the last has no more to do.
    views[t].nodes.tops = views[t].nodes.ready_tops = 1;
    views[t].nodes.tallest = static_cast<int32_t>(views.size() - t);
    views[t].nodes.remaining = 10 - static_cast<int64_t>(t);
  }
  PolicySpec spec;
  spec.kind = PolicyKind::kLbGreedy;
  EXPECT_EQ((*MakePolicy(spec, views.size()))->Choose(views)->type, CellTypeId(5));
  spec.taller_first = true;
  EXPECT_EQ((*MakePolicy(spec, views.size()))->Choose(views)->type, CellTypeId(0));

  spec.kind = PolicyKind::kRandom;
  std::set<CellTypeId> chosen;
  for (spec.seed = 0; spec.seed < 50; ++spec.seed) {
    chosen.insert((*MakePolicy(spec, views.size()))->Choose(views)->type);
  }
  EXPECT_GT(chosen.size(), 1u) << "every seed is another draw";
}

TEST(MakeRulesTest, RulesSayWhatTheyWereMadeOf) {
  PolicySpec policy;
  policy.about = "learned yesterday";
  policy.may_wait = {CellTypeId(2)};
  const absl::StatusOr<LaneRules> rules = MakeRules(policy, {.whole_graphs = 7}, 3);
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(rules->policy_name, "cellular");
  EXPECT_EQ(rules->policy_about, "learned yesterday");
  EXPECT_EQ(rules->may_wait, policy.may_wait);
  EXPECT_EQ(rules->join_name, "whole_graphs of 7");
  EXPECT_EQ(rules->policy_spec->about, policy.about);
  EXPECT_EQ(rules->join_spec->whole_graphs, 7);
  policy.may_wait = {CellTypeId(3)};
  EXPECT_EQ(MakeRules(policy, {}, 3).status().message(), "cell type 3 may wait, there are 3");
}

}  // namespace
}  // namespace cellbatch
