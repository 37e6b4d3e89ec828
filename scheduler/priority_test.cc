// Claims about priority levels of requests (Model::priority_levels), by the order of what runs and of answers.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/policy/policy_spec.h"
#include "scheduler/policy/whole_graphs.h"
#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using namespace scheduler_testing;

constexpr int32_t kPlaces = 4;
constexpr uint64_t kUrgent = 1'000'000;  // tags of urgent ones begin here

std::shared_ptr<Model> WithLevels(int32_t levels, int32_t default_level = 1) {
  std::shared_ptr<Model> model = MakeModel(ModelId(1), std::vector<int32_t>(5, kPlaces));
  model->priority_levels = levels;
  model->default_priority_level = default_level;
  return model;
}

WorldOptions Ageing(int64_t tasks) {
  WorldOptions options;
  options.scheduler.priority_ageing = tasks;
  return options;
}

RequestId Submit(World& world, std::unique_ptr<Request> request, int32_t priority, uint64_t tag) {
  request->priority = priority;
  return world.Submit(std::move(request), tag);
}

// Tags in the order of their answers, all of them OK.
std::vector<uint64_t> Answers(World& world) {
  std::vector<uint64_t> tags;
  while (world.Step()) {
    for (const auto& r : world.Finished()) {
      EXPECT_TRUE(r->status.ok()) << r->status;
      tags.push_back(r->tag);
    }
  }
  world.ExpectClean();
  return tags;
}

size_t PlaceOf(const std::vector<uint64_t>& tags, uint64_t tag) {
  return static_cast<size_t>(std::find(tags.begin(), tags.end(), tag) - tags.begin());
}

TEST(PriorityTest, AnUrgentRequestOvertakesAllButThoseThatHaveAPlace) {
  for (const bool trees : {false, true}) {
    World world(Ageing(1000));
    const auto model = WithLevels(2, 2);
    world.Add(model);
    const auto make = [&] { return trees ? world.Tree(model, 8) : world.Sentence(model, 10); };
    for (uint64_t i = 0; i < 60; ++i) Submit(world, make(), 0, i);
    for (int i = 0; i < 6; ++i) world.Step();
    Submit(world, make(), 1, kUrgent);
    const std::vector<uint64_t> tags = Answers(world);
    ASSERT_EQ(tags.size(), 61u);
    EXPECT_LE(PlaceOf(tags, kUrgent), trees ? 3u * kPlaces : size_t{kPlaces}) << "trees " << trees;
  }
}

TEST(PriorityTest, WhereAModelHasOneLevelAllAreAlike) {
  World world;
  const auto model = WithLevels(1);
  world.Add(model);
  for (uint64_t i = 0; i < 40; ++i) Submit(world, world.Sentence(model, 10), i == 39 ? 1 : 0, i);
  EXPECT_GE(PlaceOf(Answers(world), 39), 36u) << "with those of its task";
}

TEST(PriorityTest, WithinALevelTheOldestIsFirst) {
  World world(Ageing(100'000));
  const auto model = WithLevels(3);
  world.Add(model);
  for (uint64_t i = 0; i < 60; ++i) {
    Submit(world, world.Sentence(model, 10), 1 + static_cast<int32_t>(i * 7 % 3), i);
  }
  const std::vector<uint64_t> tags = Answers(world);
  ASSERT_EQ(tags.size(), 60u);
  // All had arrived when the first of them joined, so levels follow one another, too; places, four at a time.
  for (size_t i = kPlaces; i < tags.size(); ++i) {
    const uint64_t earlier = tags[i - kPlaces], level = tags[i] * 7 % 3;
    EXPECT_LE(earlier * 7 % 3, level) << "answer " << i;
    if (earlier * 7 % 3 == level) {
      EXPECT_LT(earlier, tags[i]) << "answer " << i;
    }
  }
}

// A flood of urgent requests, as many as there can be places for, and one that is not: how many of them, submitted
// after it, are answered before it is.
size_t PassedByAFlood(int64_t ageing, int32_t level, size_t flood) {
  World world(Ageing(ageing));
  const auto model = WithLevels(4);
  world.Add(model);
  uint64_t next = kUrgent;
  for (int i = 0; i < 20; ++i) Submit(world, world.Sentence(model, 8), 1, next++);
  for (int i = 0; i < 5; ++i) world.Step();
  Submit(world, world.Sentence(model, 8), level, 1);
  size_t passed = 0;
  bool answered = false;
  while (!answered && passed < flood && world.Step()) {
    for (const auto& r : world.Finished()) {
      answered |= r->tag == 1;
      passed += answered ? 0 : 1;
      Submit(world, world.Sentence(model, 8), 1, next++);
    }
  }
  Answers(world);
  return passed;
}

TEST(PriorityTest, WhoIsLessUrgentIsPassedByNobodyWhoComesLaterThanItsAgeing) {
  constexpr size_t kFlood = 2000;
  // A task of four chains, eight for each sentence, one of the head: 4 sentences in 9 tasks, and those before it in line.
  const auto most = [](int64_t ageing) { return static_cast<size_t>(ageing) * 4 / 9 + 40; };
  EXPECT_LE(PassedByAFlood(90, 2, kFlood), most(90));
  EXPECT_LE(PassedByAFlood(90, 4, kFlood), most(3 * 90));
  EXPECT_GE(PassedByAFlood(90, 4, kFlood), most(3 * 90) / 2) << "a level counts for nothing";
  EXPECT_EQ(PassedByAFlood(1'000'000, 2, kFlood), kFlood) << "so the flood is one";
}

// Chains hold all places for longer than the test looks; short ones wait for them.
struct Race {
  explicit Race(int32_t turn, int32_t running_level, int32_t waiting_level, int later = 20) {
    WorldOptions options = Ageing(100'000);
    options.scheduler.chain_turn = turn;
    world = std::make_unique<World>(options);
    model = WithLevels(2);
    world->Add(model);
    for (uint64_t i = 0; i < kPlaces; ++i) {
      Submit(*world, world->Sentence(model, 400), running_level, 1000 + i);
    }
    for (int i = 0; i < later; ++i) world->Step();
    Submit(*world, world->Sentence(model, 3), waiting_level, 1);
    tags = Answers(*world);
  }
  std::unique_ptr<World> world;
  std::shared_ptr<Model> model;
  std::vector<uint64_t> tags;
};

TEST(PriorityTest, ARunningChainKeepsItsPlaceForATurnAndThenGivesItToTheMoreUrgent) {
  EXPECT_EQ(PlaceOf(Race(16, 2, 1).tags, 1), 0u);
  EXPECT_EQ(PlaceOf(Race(1000, 2, 1).tags, 1), size_t{kPlaces}) << "its turn was not over";
}

TEST(PriorityTest, AChainWhoseTurnIsOverGivesNoPlaceToTheLessUrgent) {
  EXPECT_EQ(PlaceOf(Race(16, 1, 2).tags, 1), size_t{kPlaces});
  EXPECT_EQ(PlaceOf(Race(16, 1, 1).tags, 1), 0u) << "nor to its like";
  EXPECT_EQ(PlaceOf(Race(16, 2, 2, /*later=*/0).tags, 1), 0u) << "nor to who came with it";
}

// Of two that wait the more urgent one takes the place that is free; the other one would have that of a more urgent chain.
TEST(PriorityTest, WhoTakesAFreePlaceTakesNobodysPlaceForTheNextInLine) {
  WorldOptions options = Ageing(100'000);
  options.scheduler.chain_turn = 16;
  World world(options);
  const auto model = WithLevels(2);
  world.Add(model);
  for (uint64_t i = 0; i + 1 < kPlaces; ++i) Submit(world, world.Sentence(model, 400), 1, 1000 + i);
  for (int i = 0; i < 150; ++i) world.Step();  // their turns are over
  Submit(world, world.Sentence(model, 400), 1, 2);
  Submit(world, world.Sentence(model, 3), 2, 1);
  EXPECT_GE(PlaceOf(Answers(world), 1), size_t{kPlaces} - 1);
}

// Chains and trees of three levels on two workers, cancels between them, under the policy that picks depths, too, and in
// batches of whole graphs: all that is kept is counted anew at every step, and every answer comes.
void RunMixedLoad(PolicyKind kind, bool whole_graphs) {
  WorldOptions options = Ageing(25);
  options.devices = 2;
  options.scheduler.stealing = Stealing::kAlways;
  options.scheduler.chain_turn = 3;
  World world(options);
  const auto model = WithLevels(3, 2);
  PolicySpec spec;
  spec.kind = kind;
  LaneRules rules(*MakePolicy(spec, model->types.size()));
  if (whole_graphs) rules.join = std::make_unique<WholeGraphs>(8);
  world.Add(model, std::move(rules));
  std::vector<RequestId> ids;
  for (uint64_t i = 0; i < 90; ++i) {
    const auto size = static_cast<int32_t>(1 + i * 7 % 23);
    auto request = i % 2 == 0 ? world.Sentence(model, size) : world.Tree(model, size);
    ids.push_back(Submit(world, std::move(request), static_cast<int32_t>(i * 5 % 4), i));
  }
  size_t answered = 0;
  for (uint32_t step = 0; world.Step(); ++step) {
    if (step < 40 && step % 4 == 0) {
      world.scheduler().Notify(ids[(step * 13) % ids.size()], News::kCancelled);
    }
    const absl::Status invariants = world.scheduler().CheckInvariants();
    ASSERT_TRUE(invariants.ok()) << invariants << " step " << step;
    answered += world.Finished().size();
  }
  EXPECT_EQ(answered, 90u);
  world.ExpectClean();
}

TEST(PriorityTest, WhatIsKeptHoldsAtEveryStepUnderEveryKindOfPolicy) {
  for (const PolicyKind kind : {PolicyKind::kCellular, PolicyKind::kDepth, PolicyKind::kLbGreedy}) {
    for (const bool whole_graphs : {false, true}) {
      SCOPED_TRACE(std::string(Name(kind)));
      RunMixedLoad(kind, whole_graphs);
    }
  }
}

TEST(PriorityTest, AnAgeingThatIsNoneIsRefused) {
  for (const int64_t tasks : {int64_t{0}, kMostPriorityAgeing + 1}) {
    SchedulerOptions options;
    options.priority_ageing = tasks;
    SimTime time;
    VirtualClock clock(time);
    DeviceSet set;
    auto memory = std::make_unique<SimMemory>(SimMemoryOptions{});
    set.devices.push_back(std::make_unique<SimDevice>(SimDeviceOptions{}, *memory, time));
    set.memories.push_back(std::move(memory));
    const auto made = Scheduler::Create(options, std::move(set), clock);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().message(),
              "priority_ageing is " + std::to_string(tasks) + " tasks, allowed are 1 to 1000000");
  }
}

TEST(PriorityTest, AModelsLevelsAreInTheirRanges) {
  const auto error = [](int32_t levels, int32_t default_level) {
    return std::string(WithLevels(levels, default_level)->Validate().message());
  };
  EXPECT_EQ(error(3, 3), "");
  EXPECT_EQ(error(0, 1), "model \"model1\": priority_levels is 0, allowed are 1 to 256");
  EXPECT_EQ(error(257, 1), "model \"model1\": priority_levels is 257, allowed are 1 to 256");
  EXPECT_EQ(error(3, 4), "model \"model1\": default_priority_level is 4, allowed are 1 to 3");
  EXPECT_EQ(error(3, 0), "model \"model1\": default_priority_level is 0, allowed are 1 to 3");
}

}  // namespace
}  // namespace cellbatch
