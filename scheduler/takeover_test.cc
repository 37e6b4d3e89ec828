// Claims about policies that a lane takes over while it serves.
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "scheduler/policy/make_rules.h"
#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using namespace scheduler_testing;

constexpr int kFlood = 120;

LaneRules Rules(PolicyKind kind, const Model& model, bool taller_first = false) {
  PolicySpec spec;
  spec.kind = kind;
  spec.taller_first = taller_first;
  spec.about = taller_first ? "taller first" : "";
  absl::StatusOr<LaneRules> rules = MakeRules(spec, {}, model.types.size());
  EXPECT_TRUE(rules.ok()) << rules.status();
  return *std::move(rules);
}

struct Flood {
  std::map<uint64_t, int64_t> ended_at;  // by tag
  LaneStats stats;
};

// A flood of trees and sentences for a lane of LB-greedy; `other`: what it takes over in the middle of it, null: nothing.
Flood Play(const std::function<LaneRules(const Model&)>& other) {
  WorldOptions options;
  options.devices = 2;
  World world(options);
  const auto model = MakeModel(ModelId(1), {4, 4, 4, 4});
  world.Add(model, Rules(PolicyKind::kLbGreedy, *model));
  Flood flood;
  const auto take = [&] {
    for (const auto& done : world.Finished()) {
      EXPECT_TRUE(done->status.ok()) << done->status;
      flood.ended_at[done->tag] = done->times.last_task_end;
    }
  };
  for (int i = 0; i < kFlood; ++i) {
    auto request = i % 3 == 0 ? world.Sentence(model, 1 + i % 7) : world.Tree(model, 2 + i % 9);
    world.Submit(std::move(request), static_cast<uint64_t>(i));
    if (i == kFlood / 2 && other) {
      const absl::Status taken = world.scheduler().SetPolicy(model->id, other(*model));
      EXPECT_TRUE(taken.ok()) << taken;
      EXPECT_TRUE(world.scheduler().CheckInvariants().ok());
    } else if (i == kFlood / 2) {
      // The step that the call takes, where nobody else steps.
      world.scheduler().StepManager();
      for (int d = 0; d < options.devices; ++d) world.scheduler().StepWorker(d);
    }
    world.Step();
    take();
  }
  world.Run();
  take();
  flood.stats = world.scheduler().stats().Lanes().front();
  world.ExpectClean();
  return flood;
}

uint64_t Decisions(const LaneStats& stats) {
  uint64_t all = 0;
  for (const DecisionStats& d : stats.decisions) all += d.tasks;
  return all;
}

uint64_t Tasks(const LaneStats& stats) {
  uint64_t all = 0;
  for (const CellTypeStats& type : stats.types) all += type.tasks;
  return all;
}

TEST(TakeoverTest, InAFloodEveryRequestIsAnsweredAndEveryDecisionOfBothPoliciesIsCounted) {
  const Flood flood =
      Play([](const Model& model) { return Rules(PolicyKind::kLbGreedy, model, true); });
  EXPECT_EQ(flood.ended_at.size(), static_cast<size_t>(kFlood));
  EXPECT_EQ(flood.stats.policies_taken, 1);
  EXPECT_EQ(flood.stats.policy_about, "taller first");
  EXPECT_GT(Tasks(flood.stats), 0u);
  EXPECT_LE(Decisions(flood.stats), Tasks(flood.stats));  // warm-up's tasks are nobody's decision
  const Flood without = Play(nullptr);
  EXPECT_EQ(without.stats.policies_taken, 0);
  EXPECT_EQ(without.stats.policy_about, "");
}

TEST(TakeoverTest, TakingOverTheSamePolicyAgainDelaysNoAnswer) {
  const Flood without = Play(nullptr);
  const Flood flood = Play([](const Model& model) { return Rules(PolicyKind::kLbGreedy, model); });
  EXPECT_EQ(flood.stats.policies_taken, 1);
  EXPECT_EQ(flood.ended_at, without.ended_at);
  EXPECT_EQ(Decisions(flood.stats), Decisions(without.stats));
}

TEST(TakeoverTest, APolicyThatLooksAtOtherThingsIsRefusedAndTheOldOneGoesOn) {
  World world;
  const auto model = MakeModel(ModelId(1));
  world.Add(model);
  for (const PolicyKind kind : {PolicyKind::kLbGreedy, PolicyKind::kAgenda, PolicyKind::kDepth}) {
    const absl::Status refused = world.scheduler().SetPolicy(model->id, Rules(kind, *model));
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << Name(kind);
  }
  EXPECT_EQ(world.scheduler().stats().Lanes().front().policy, "cellular");
  EXPECT_TRUE(world.scheduler().SetPolicy(model->id, Rules(PolicyKind::kRandom, *model)).ok());
  EXPECT_EQ(world.scheduler().stats().Lanes().front().policy, "random");
  world.Submit(world.Tree(model, 5), 1);
  world.Run();
  EXPECT_TRUE(world.TheOne()->status.ok());
  EXPECT_EQ(world.scheduler().SetPolicy(ModelId(9), nullptr).code(), absl::StatusCode::kNotFound);
  world.ExpectClean();
}

// Chains do not run where depths are picked: what one of them left running is in no queue that the other looks at.
TEST(TakeoverTest, AfterAPolicyThatPicksDepthsComesNoneThatDoesNotAndNotTheOtherWayRound) {
  const std::pair<PolicyKind, PolicyKind> pairs[] = {{PolicyKind::kAgenda, PolicyKind::kDepth},
                                                     {PolicyKind::kDepth, PolicyKind::kAgenda}};
  for (const auto& [first, other] : pairs) {
    World world;
    const auto model = MakeModel(ModelId(1));
    world.Add(model, Rules(first, *model));
    world.Submit(world.Sentence(model, 9), 1);
    for (int i = 0; i < 4; ++i) world.Step();
    EXPECT_EQ(world.scheduler().SetPolicy(model->id, Rules(other, *model)).code(),
              absl::StatusCode::kFailedPrecondition)
        << Name(other) << " after " << Name(first);
    EXPECT_EQ(world.scheduler().stats().Lanes().front().policy, Name(first));
    world.Run();
    EXPECT_TRUE(world.TheOne()->status.ok());
    world.ExpectClean();
  }
}

}  // namespace
}  // namespace cellbatch
