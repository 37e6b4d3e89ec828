// Claims about the seam between the scheduler and what decides for a lane: policies and a rule of joining that no file
// of the manager's or the processor's knows decide, and see the frontier as it is.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/policy/test_policies.h"
#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using namespace scheduler_testing;
using policy_testing::LowestMeanDepth;
using policy_testing::TallestTop;
using policy_testing::WholeBatches;

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
template <typename P>
void RunMixedLoad(int devices) {
  WorldOptions options = Unhurried();
  options.devices = devices;
  options.scheduler.stealing = Stealing::kAlways;
  options.scheduler.chain_turn = 3;
  World world(options);
  const auto model = MakeModel(ModelId(1), {4, 4, 4, 4, 4});
  world.Add(model, std::make_unique<P>());
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

TEST(PolicySeamTest, APolicyOfDepthsSeesThemAsTheyAre) {
  RunMixedLoad<LowestMeanDepth>(1);
  RunMixedLoad<LowestMeanDepth>(3);
}

TEST(PolicySeamTest, APolicyOfHeightsSeesThemAsTheyAre) {
  RunMixedLoad<TallestTop>(1);
  RunMixedLoad<TallestTop>(3);
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

TEST(PolicySeamTest, ANewRuleOfJoiningDecidesWhoRunsTogether) {
  World world(Unhurried());
  const auto model = MakeModel(ModelId(1));
  world.Add(model, {nullptr, std::make_unique<WholeBatches>(3)});
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

}  // namespace
}  // namespace cellbatch
