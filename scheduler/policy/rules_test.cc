// Claims about the parts that stand around a policy: who decides before it, when it is repeated, who joins, how much is
// stolen. The policies here are tests' own: a new one needs nothing but its file.
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/policy/decider.h"
#include "scheduler/policy/join_rule.h"
#include "scheduler/policy/steal_rule.h"
#include "scheduler/policy/whole_graphs.h"

namespace cellbatch {
namespace {

constexpr std::string_view kLast[] = {"last"};

// The highest type with anything ready.
class LastType final : public Policy {
 public:
  std::optional<Choice> Choose(Frontier frontier) const override {
    std::optional<Choice> choice;
    for (const TypeView& view : frontier) {
      if (view.ready > 0) choice = Choice{view.type};
    }
    return choice;
  }
  absl::Span<const std::string_view> reasons() const override { return kLast; }
};

TypeView View(int type, int32_t ready, int64_t waited = 0, int32_t priority = 0) {
  TypeView view;
  view.type = CellTypeId(type);
  view.ready = ready;
  view.max_batch = 8;
  view.priority = priority;
  view.waited = waited;
  return view;
}

// What is decided, and why.
std::string Decided(const Decider& decider, const std::vector<TypeView>& frontier) {
  const std::optional<Choice> choice = decider.Decide(frontier);
  if (!choice) return "nothing";
  return std::to_string(choice->type.value()) + " " +
         std::string(decider.reasons()[static_cast<size_t>(choice->reason)]);
}

TEST(DeciderTest, WhoWaitedTooLongGoesBeforeAFullBatchAndThatBeforeThePolicy) {
  const Decider decider(std::make_unique<LastType>(), /*max_wait_tasks=*/20);
  EXPECT_EQ(Decided(decider, {View(0, 1, 21), View(1, 1, 25), View(2, 8), View(3, 1)}),
            "1 overdue");
  EXPECT_EQ(Decided(decider, {View(0, 1, 20), View(1, 8), View(2, 9, 0, 1), View(3, 1)}),
            "2 full_batch");
  EXPECT_EQ(Decided(decider, {View(0, 1, 20), View(1, 8), View(2, 9), View(3, 1)}), "2 full_batch")
      << "of equals the last: it is nearer to an answer";
  EXPECT_EQ(Decided(decider, {View(0, 1, 20), View(1, 7), View(2, 0)}), "1 last");
  EXPECT_EQ(Decided(decider, {View(0, 0), View(1, 0)}), "nothing");
}

TEST(DeciderTest, OnlyAlgorithm1RepeatsAndNoBatchSmallerThanTheSmallest) {
  const Decider cellular(nullptr, 20), last(std::make_unique<LastType>(), 20);
  EXPECT_TRUE(cellular.Repeats(/*ready=*/4, /*min_batch=*/4));
  EXPECT_FALSE(cellular.Repeats(3, 4));
  EXPECT_FALSE(last.Repeats(8, 1));
}

// What is decided of types of which type 2 may wait, 10 tasks at the most.
std::string DecidedOf(std::vector<TypeView> frontier,
                      std::unique_ptr<const Policy> policy = std::make_unique<LastType>()) {
  const CellTypeId may_wait[] = {CellTypeId(2)};
  const Decider decider(std::move(policy), /*max_wait_tasks=*/10, may_wait);
  decider.Hold(absl::MakeSpan(frontier));
  return Decided(decider, frontier);
}

TEST(DeciderTest, WhatMayWaitDoesWhileItsBatchIsNotFullAndAnythingElseIsReady) {
  EXPECT_EQ(DecidedOf({View(0, 1), View(1, 0), View(2, 7)}), "0 last");
  EXPECT_EQ(DecidedOf({View(0, 1), View(1, 0), View(2, 7)}, nullptr), "0 idle_type");
  EXPECT_EQ(DecidedOf({View(0, 1), View(1, 0), View(2, 8)}), "2 full_batch");
  EXPECT_EQ(DecidedOf({View(0, 0), View(1, 0), View(2, 1)}), "2 last") << "it is all that is left";
  EXPECT_EQ(DecidedOf({View(0, 0), View(1, 0), View(2, 0)}), "nothing");
}

TEST(DeciderTest, TheLongerATypeHasWaitedTheLessOfABatchIsEnough) {
  for (int64_t waited = 0; waited <= 10; ++waited) {
    for (int32_t ready = 1; ready <= 8; ++ready) {
      const bool enough = ready * 10 >= 8 * (10 - waited);
      EXPECT_EQ(DecidedOf({View(0, 1), View(1, 0), View(2, ready, waited)}) == "0 last", !enough)
          << ready << " of 8, after " << waited << " tasks of 10";
    }
  }
  EXPECT_EQ(DecidedOf({View(0, 8), View(1, 8), View(2, 1, 11)}), "2 overdue")
      << "longer nobody waits for company";
}

TEST(DeciderTest, OfATypeThatMayWaitOnlyFullBatchesFollowAtOnce) {
  const CellTypeId may_wait[] = {CellTypeId(1)};
  const Decider decider(nullptr, 20, may_wait);
  EXPECT_EQ(decider.LeastRepeated(CellTypeId(0), 1, 8), 1);
  EXPECT_EQ(decider.LeastRepeated(CellTypeId(1), 1, 8), 8);
  EXPECT_EQ(decider.LeastRepeated(CellTypeId(2), 1, 8), 1);
}

constexpr std::string_view kShallow[] = {"shallow"};

// The first type with anything ready, at its least depth.
class ShallowFirst final : public Policy {
 public:
  std::optional<Choice> Choose(Frontier frontier) const override {
    for (const TypeView& view : frontier) {
      if (view.ready > 0) return Choice{view.type, 0, view.nodes.least_depth};
    }
    return std::nullopt;
  }
  absl::Span<const std::string_view> reasons() const override { return kShallow; }
  bool picks_depth() const override { return true; }
};

TypeView AtDepth(TypeView view, int32_t depth, int64_t there, int64_t narrow_tasks = 0) {
  view.nodes.least_depth = depth;
  view.nodes.at_least_depth = there;
  view.narrow_tasks = narrow_tasks;
  return view;
}

TEST(DeciderTest, OfAPolicyThatPicksDepthsABatchIsFullAtOneDepthAndWhoIsOverdueRunsAtAll) {
  const Decider decider(std::make_unique<ShallowFirst>(), /*max_wait_tasks=*/20);
  const auto decided = [&](const std::vector<TypeView>& frontier) {
    return Decided(decider, frontier) + " " + std::to_string(decider.Decide(frontier)->depth);
  };
  const TypeView shallow = AtDepth(View(0, 5), 2, 3);
  EXPECT_EQ(decided({shallow, AtDepth(View(1, 9), 4, 7)}), "0 shallow 2") << "no depth has eight";
  EXPECT_EQ(decided({shallow, AtDepth(View(1, 9), 4, 8)}), "1 full_batch 4");
  EXPECT_EQ(decided({AtDepth(View(0, 9), 2, 8), AtDepth(View(1, 9), 4, 8)}), "1 full_batch 4")
      << "of equals the last";
  EXPECT_EQ(decided({shallow, AtDepth(View(1, 9, 21), 4, 8)}), "1 overdue -1");
  EXPECT_EQ(decided({AtDepth(View(0, 5, 25), 2, 3), AtDepth(View(1, 9, 21), 4, 8)}), "0 overdue -1")
      << "who waited longest";
  EXPECT_EQ(decided({AtDepth(View(0, 5), 2, 3, 20), View(1, 0)}), "0 shallow 2");
  EXPECT_EQ(decided({AtDepth(View(0, 5), 2, 3, 21), View(1, 0)}), "0 overdue -1")
      << "who lies at other depths is passed over for ever";
}

TEST(JoinRuleTest, CellularJoinTakesRequestsWhileEachRootTypeHasLessThanTwoBatches) {
  const CellularJoin join;
  JoinView view;
  std::vector<TypeView> roots = {View(0, 15), View(1, 3)};
  view.roots = roots;
  EXPECT_TRUE(join.MayJoin(view));
  roots[0].ready = 16;
  EXPECT_FALSE(join.MayJoin(view));
  roots[0].given_way = 1;
  EXPECT_TRUE(join.MayJoin(view)) << "chains that gave way hold up the line";
  EXPECT_FALSE(CellularJoin(/*count_given_way=*/true).MayJoin(view));
}

TEST(JoinRuleTest, WholeGraphsTakesSoManyTogetherAndNobodyUntilAllHaveLeft) {
  const WholeGraphs join(3);
  const auto may_join = [&](int64_t running, int64_t joined_now) {
    JoinView view;
    const std::vector<TypeView> roots = {View(0, 100)};
    view.roots = roots;
    view.running = running;
    view.joined_now = joined_now;
    return join.MayJoin(view);
  };
  for (int64_t joined = 0; joined < 3; ++joined) EXPECT_TRUE(may_join(joined, joined));
  EXPECT_FALSE(may_join(3, 3)) << "more than were asked for";
  for (int64_t running = 1; running <= 3; ++running) EXPECT_FALSE(may_join(running, 0)) << running;
  EXPECT_FALSE(may_join(2, 1)) << "one of them ran before";
}

TEST(StealRuleTest, HalfIsTakenAtLeastOneAndAtMostABatch) {
  EXPECT_EQ(StealHalf().Nodes(1, 8), 1);
  EXPECT_EQ(StealHalf().Nodes(7, 8), 4);
  EXPECT_EQ(StealHalf().Nodes(100, 8), 8);
}

}  // namespace
}  // namespace cellbatch
