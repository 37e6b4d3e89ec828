// Claims about the seam between the scheduler and what decides for a lane: policies and a rule of joining that no file
// of the manager's or the processor's knows decide, and see the frontier as it is.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/policy/depth_policy.h"
#include "scheduler/policy/policy_spec.h"
#include "scheduler/policy/test_policies.h"
#include "scheduler/policy/whole_graphs.h"
#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using namespace scheduler_testing;
using policy_testing::LowestMeanDepth;
using policy_testing::TallestTop;

std::map<std::string, uint64_t> Decisions(World& world) {
  std::map<std::string, uint64_t> tasks;
  const std::vector<LaneStats> lanes = world.scheduler().stats().Lanes();
  for (const DecisionStats& d : lanes[0].decisions) {
    tasks[d.reason] = d.tasks;
  }
  return tasks;
}

uint64_t Tasks(World& world) {
  uint64_t tasks = 0;
  const std::vector<LaneStats> lanes = world.scheduler().stats().Lanes();
  for (const CellTypeStats& type : lanes[0].types) tasks += type.tasks;
  return tasks;
}

WorldOptions Unhurried() {
  WorldOptions options;
  options.scheduler.max_wait_tasks = 1000;  // nobody is overdue: the policy decides
  return options;
}

// Sentences of several lengths, with trees between them; every answer comes, and the counts hold at every step.
void RunMixedLoad(std::unique_ptr<const Policy> policy, int devices) {
  WorldOptions options = Unhurried();
  options.devices = devices;
  options.scheduler.stealing = Stealing::kAlways;
  options.scheduler.chain_turn = 3;
  World world(options);
  const auto model = MakeModel(ModelId(1), {4, 4, 4, 4, 4});
  world.Add(model, std::move(policy));
  std::vector<RequestId> ids;
  for (uint64_t i = 0; i < 60; ++i) {
    const auto size = static_cast<int32_t>(1 + i * 7 % 23);
    ids.push_back(
        world.Submit(i % 2 == 0 ? world.Sentence(model, size) : world.Tree(model, size), i));
  }
  for (uint32_t step = 0; world.Step(); ++step) {
    const absl::Status status = world.scheduler().CheckInvariants();
    ASSERT_TRUE(status.ok()) << status << " in step " << step;
    if (step % 9 == 0 && step / 9 < ids.size()) {
      world.scheduler().Notify(ids[step / 9], News::kCancelled);
    }
  }
  EXPECT_EQ(world.Finished().size(), 60u);
  world.ExpectClean();
  uint64_t decided = 0;
  for (const auto& [reason, tasks] : Decisions(world)) decided += tasks;
  EXPECT_EQ(decided, Tasks(world)) << "a task was formed for no reason, or for two";
}

// An FSM that was learned for nothing: every state is unseen, or has a phase.
PolicySpec SpecOf(PolicyKind kind) {
  PolicySpec spec;
  spec.kind = kind;
  spec.encoding = {StateEncoding::Kind::kSort, 3};
  return spec;
}

TEST(PolicySeamTest, EveryServedPolicySeesTheFrontierAsItIs) {
  for (const PolicyKind kind : kPolicyKinds) {
    if (kind == PolicyKind::kSufficient) continue;  // a lane keeps no heads
    for (const int devices : {1, 3}) {
      SCOPED_TRACE(std::string(Name(kind)) + " on " + std::to_string(devices));
      RunMixedLoad(*MakePolicy(SpecOf(kind), 12), devices);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// Chains longer than heights and depths are told: what lies beyond counts as lying there.
TEST(PolicySeamTest, VeryLongChainsAreCountedToTheirEnd) {
  constexpr int32_t kTold = 4095;
  for (const PolicyKind kind : {PolicyKind::kLbGreedy, PolicyKind::kDepth}) {
    World world(Unhurried());
    const auto model = MakeModel(ModelId(1), {4, 4, 4, 4, 4});
    PolicySpec spec;
    spec.kind = kind;
    world.Add(model, *MakePolicy(spec, model->types.size()));
    for (const int32_t more :
         {60, 40, 20}) {  // one after the other, so that they are at different heights
      world.Submit(world.Sentence(model, kTold + more), 1);
      for (int i = 0; i < 20; ++i) world.Step();
    }
    for (uint32_t step = 0; world.Step(); ++step) {
      if (step % 11 != 0) continue;
      const absl::Status invariants = world.scheduler().CheckInvariants();
      ASSERT_TRUE(invariants.ok()) << invariants << " step " << step << " " << Name(kind);
    }
    EXPECT_EQ(world.Finished().size(), 3u);
    world.ExpectClean();
  }
}

TEST(PolicySeamTest, PoliciesThatTheSchedulerDoesNotKnowSeeItToo) {
  RunMixedLoad(std::make_unique<LowestMeanDepth>(), 3);
  RunMixedLoad(std::make_unique<TallestTop>(), 3);
}

// The tasks of heads, where a second sentence as long as the first comes when half of that has run.
uint64_t HeadsOfALateSecond(std::unique_ptr<const Policy> policy, int max_wait_tasks) {
  WorldOptions options = Unhurried();
  options.scheduler.max_wait_tasks = max_wait_tasks;
  World world(options);
  const auto model = MakeModel(ModelId(1));
  world.Add(model, std::move(policy));
  world.Submit(world.Sentence(model, 60), 1);
  while (Tasks(world) < 30) EXPECT_TRUE(world.Step());
  world.Submit(world.Sentence(model, 60), 2);
  world.Run();
  EXPECT_EQ(world.Finished().size(), 2u);
  world.ExpectClean();
  return world.scheduler().stats().Lanes()[0].types[3].tasks;
}

// Under Algorithm 1 both run on together, and the first ends first.
TEST(PolicySeamTest, ADepthPolicyLeavesReadyNodesOfOtherDepths) {
  EXPECT_EQ(HeadsOfALateSecond(nullptr, 1000), 2u);
  EXPECT_EQ(HeadsOfALateSecond(std::make_unique<DepthPolicy>(), 1000), 1u)
      << "the second did not catch up with the first";
}

// The tasks of heads of three sentences of different lengths that begin together.
uint64_t HeadsOfThree(const UnfoldOptions& unfold) {
  World world(Unhurried());
  const auto model = MakeModel(ModelId(1));
  model->unfold = unfold;
  world.Add(model, std::make_unique<DepthPolicy>());
  for (const int32_t words : {3, 5, 9}) {
    world.Submit(
        world.Make(model,
                   [&](CellGraph& g) {
                     const SubgraphId in = world.Tokens(g, words);
                     const SubgraphId chain = g.Add(kChain, words, {{in, kIn0, 0, 1}});
                     g.SetPhase(1);
                     const SubgraphId head = g.Add(kHead, 1, {{chain, kIn0, words - 1}});
                     g.Return(head, kY, {0, 1}, {g.AddTensor("Y", WireType::kFp32, {2}), 0, 0});
                   }),
        static_cast<uint64_t>(words));
  }
  world.Run();
  EXPECT_EQ(world.Finished().size(), 3u);
  world.ExpectClean();
  return world.scheduler().stats().Lanes()[0].types[3].tasks;
}

TEST(PolicySeamTest, ADepthPolicyThatIsToldPhasesRunsHeadsAfterAllChains) {
  EXPECT_EQ(HeadsOfThree({}), 3u);
  EXPECT_EQ(HeadsOfThree({.phases = 2}), 1u);
}

// Tasks until a sentence of ten words is answered, while with every task another one comes, which lies less deep; at most
// 400.
uint64_t TasksBesideAFlood(int max_wait_tasks) {
  WorldOptions options;
  options.scheduler.max_wait_tasks = max_wait_tasks;
  World world(options);
  const auto model = MakeModel(ModelId(1));
  world.Add(model, std::make_unique<DepthPolicy>());
  world.Submit(world.Sentence(model, 10), 1);
  while (Tasks(world) < 5) EXPECT_TRUE(world.Step());
  bool answered = false;
  for (uint64_t tasks = Tasks(world), seen = 0; tasks < 400 && !answered; tasks = Tasks(world)) {
    if (tasks > seen) world.Submit(world.Sentence(model, 4), 2);
    seen = tasks;
    EXPECT_TRUE(world.Step());
    for (const auto& r : world.Finished()) answered |= r->tag == 1;
  }
  const uint64_t tasks = Tasks(world);
  world.Run();
  EXPECT_FALSE(world.Finished().empty());
  world.ExpectClean();
  return tasks;
}

TEST(PolicySeamTest, WhatADepthPolicyLeavesBehindIsTakenAlongAfterSoManyTasks) {
  EXPECT_GE(TasksBesideAFlood(1000), 400u) << "nothing starves that could";
  EXPECT_LE(TasksBesideAFlood(20), 5 + (10 + 1) * (20 + 1));
}

// What a learner finds of sentences that are all there from the start: heads last, so that they go together.
std::unique_ptr<const Policy> HeadsLast() {
  PolicySpec spec;
  spec.kind = PolicyKind::kFsm;
  spec.encoding.kind = StateEncoding::Kind::kBase;
  const CellTypeId chain(0), head(3);
  const auto rule = [&](std::vector<CellTypeId> ready, CellTypeId run) {
    spec.rules.push_back({*MakeState(spec.encoding, ready, 0), run});
  };
  rule({chain}, chain);
  rule({chain, head}, chain);
  rule({head}, head);
  return *MakePolicy(spec, 12);
}

struct Answered {
  uint64_t answers = 0, tasks_to_first = 0;
};

// Of 300 tasks while a sentence of five words comes with each.
Answered AnswersOfAFlood(int max_wait_tasks) {
  WorldOptions options;
  options.scheduler.max_wait_tasks = max_wait_tasks;
  World world(options);
  const auto model = MakeModel(ModelId(1), std::vector<int32_t>(5, 512));  // none is ever full
  world.Add(model, HeadsLast());
  Answered answered;
  world.Submit(world.Sentence(model, 5), 0);
  for (uint64_t seen = 0; seen < 300;) {
    if (const uint64_t tasks = Tasks(world); tasks > seen) {
      world.Submit(world.Sentence(model, 5), seen = tasks);
    }
    EXPECT_TRUE(world.Step());
    answered.answers += world.Finished().size();
    if (answered.answers > 0 && answered.tasks_to_first == 0) answered.tasks_to_first = seen;
  }
  EXPECT_GT(Decisions(world).at("learned"), 250u);
  world.Run();
  world.ExpectClean();
  return answered;
}

TEST(PolicySeamTest, ABareFsmStarvesATypeInAnOpenSystemAndAGuardedOneDoesNot) {
  EXPECT_EQ(AnswersOfAFlood(1 << 30).answers, 0u) << "there is always a chain that goes first";
  const Answered guarded = AnswersOfAFlood(20);
  EXPECT_GE(guarded.answers, 300u - 2 * 21 - 5);
  EXPECT_LE(guarded.tasks_to_first, 5u + 21 + 4);
}

// Two chains of different lengths with a head each: Algorithm 1 answers the short one first; by mean depth the heads,
// which lie deepest, wait until both chains are done and go together.
TEST(PolicySeamTest, ANewPolicyDecidesTheOrder) {
  const auto head_tasks = [](std::unique_ptr<const Policy> policy) {
    World world(Unhurried());
    const auto model = MakeModel(ModelId(1));
    world.Add(model, std::move(policy));
    world.Submit(world.Sentence(model, 5), 1);
    world.Submit(world.Sentence(model, 6), 2);
    world.Run();
    EXPECT_EQ(world.Finished().size(), 2u);
    return std::make_pair(world.scheduler().stats().Lanes()[0].types[3].tasks, Decisions(world));
  };
  EXPECT_EQ(head_tasks(nullptr).first, 2u);
  const auto [tasks, decisions] = head_tasks(std::make_unique<LowestMeanDepth>());
  EXPECT_EQ(tasks, 1u);
  EXPECT_EQ(decisions.at("lowest_depth"), 7u);
  EXPECT_EQ(head_tasks(std::make_unique<TallestTop>()).second.at("reduces"), 7u);
}

TEST(PolicySeamTest, WholeGraphsRunSoManyRequestsTogetherAndThenTheNext) {
  World world(Unhurried());
  const auto model = MakeModel(ModelId(1));
  world.Add(model, {nullptr, std::make_unique<WholeGraphs>(3)});
  for (uint64_t i = 0; i < 7; ++i) world.Submit(world.Sentence(model, i % 3 == 0 ? 20 : 2), i);
  std::vector<uint64_t> order;
  int64_t most = 0;
  while (world.Step()) {
    most = std::max(most, world.scheduler().stats().Lanes()[0].running_requests);
    for (const auto& r : world.Finished()) order.push_back(r->tag);
  }
  ASSERT_EQ(order.size(), 7u);
  EXPECT_EQ(most, 3);
  std::sort(order.begin(), order.begin() + 3);
  std::sort(order.begin() + 3, order.begin() + 6);
  EXPECT_EQ(order, (std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6}))
      << "a batch began before the last ended";
  world.ExpectClean();
}

// Two sentences, of 20 and of 5 words, begin together; after their first task comes one of 2. Who is answered, in order.
std::vector<uint64_t> AnswersWithALateOne(std::unique_ptr<const JoinRule> join) {
  World world(Unhurried());
  const auto model = MakeModel(ModelId(1));
  world.Add(model, {nullptr, std::move(join)});
  world.Submit(world.Sentence(model, 20), 20);
  world.Submit(world.Sentence(model, 5), 5);
  while (Tasks(world) == 0) EXPECT_TRUE(world.Step());
  world.Submit(world.Sentence(model, 2), 2);
  world.Run();
  std::vector<uint64_t> order;
  for (const auto& r : world.Finished()) order.push_back(r->tag);
  world.ExpectClean();
  return order;
}

TEST(PolicySeamTest, WhoComesAStepAfterABatchOfWholeGraphsWaitsForItsLastCell) {
  using Order = std::vector<uint64_t>;
  EXPECT_EQ(AnswersWithALateOne(nullptr), (Order{2, 5, 20})) << "cellular batching waits, too";
  EXPECT_EQ(AnswersWithALateOne(std::make_unique<WholeGraphs>(64)), (Order{5, 20, 2}));
}

// Merged graphs as Fold and as DyNet order them: what comes while a batch runs goes together in the next one.
TEST(PolicySeamTest, WholeGraphsGoWithDepthAndWithAgenda) {
  for (const PolicyKind kind : {PolicyKind::kDepth, PolicyKind::kAgenda}) {
    SCOPED_TRACE(std::string(Name(kind)));
    World world(Unhurried());
    const auto model = MakeModel(ModelId(1));
    LaneRules rules(*MakePolicy(SpecOf(kind), 12), std::make_unique<WholeGraphs>(4));
    world.Add(model, std::move(rules));
    for (uint64_t i = 0; i < 4; ++i) world.Submit(world.Tree(model, 8), i);
    while (Tasks(world) == 0) EXPECT_TRUE(world.Step());
    for (uint64_t i = 4; i < 8; ++i) world.Submit(world.Tree(model, 8), i);
    world.Run();
    const auto finished = world.Finished();
    ASSERT_EQ(finished.size(), 8u);
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(finished[i]->tag / 4, i / 4) << "two batches met";
    EXPECT_EQ(world.scheduler().stats().Lanes()[0].types[3].tasks, 2u) << "heads of four together";
    world.ExpectClean();
  }
}

// A refused request has not joined: it does not make room in a batch that runs.
TEST(PolicySeamTest, WhoIsRefusedAtTheHeadOfTheLineOpensNoBatchThatRuns) {
  WorldOptions options = Unhurried();
  options.scheduler.row_budget_bytes = 4096;
  World world(options);
  const auto model = MakeModel(ModelId(1));
  world.Add(model, {nullptr, std::make_unique<WholeGraphs>(64)});
  world.Submit(world.Sentence(model, 20), 20);
  while (Tasks(world) == 0) EXPECT_TRUE(world.Step());
  world.Submit(world.Tree(model, 1 << 10), 1);  // more rows than there are
  world.Submit(world.Sentence(model, 2), 2);
  world.Run();
  std::vector<uint64_t> order;
  for (const auto& r : world.Finished()) {
    if (r->status.ok()) order.push_back(r->tag);
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{20, 2}));
  world.ExpectClean();
}

}  // namespace
}  // namespace cellbatch
