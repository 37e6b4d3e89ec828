// Claims about how long a running chain may keep its place (SchedulerOptions::chain_turn).
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using namespace scheduler_testing;

constexpr int32_t kPlaces = 4;
constexpr uint64_t kMaxWait =
    10;  // tasks that the head of a short one may be passed over: twice the types

uint64_t TasksOf(World& world, CellTypeId type) {
  return world.scheduler().stats().Lanes()[0].types[static_cast<size_t>(type.value())].tasks;
}

// The tasks of the chain type from when `short_ones` came, with every place taken by a chain of `length`, until the
// last of them is answered.
uint64_t TasksUntilTheShortOnesAreAnswered(int chain_turn, int32_t length, int short_ones) {
  WorldOptions options;
  options.scheduler.chain_turn = chain_turn;
  options.scheduler.max_wait_tasks = kMaxWait;
  World world(options);
  const auto model = MakeModel(ModelId(1), {kPlaces, 8, 8, 8});
  world.Add(model);
  for (uint64_t i = 0; i < kPlaces; ++i) world.Submit(world.Sentence(model, length), 1000 + i);
  for (int i = 0; i < 20; ++i) world.Step();
  const uint64_t before = TasksOf(world, kChain);
  for (int i = 0; i < short_ones; ++i) {
    world.Submit(world.Sentence(model, 3), static_cast<uint64_t>(i));
  }
  int answered = 0;
  while (answered < short_ones && world.Step()) {
    for (const auto& r : world.Finished()) answered += r->tag < 1000 ? 1 : 0;
  }
  const uint64_t tasks = TasksOf(world, kChain) - before;
  world.Run();
  for (const auto& r : world.Finished()) EXPECT_TRUE(r->status.ok()) << r->status;
  world.ExpectClean();
  return tasks;
}

TEST(ChainTurnTest, ShortChainsBehindVeryLongOnesWaitForATurnAndNotForTheirEnd) {
  constexpr int kTurn = 16;
  // Four of them: the places come free within a turn; then their own three tasks, and their heads.
  constexpr uint64_t kMost = kTurn + 3 + kMaxWait + 3;
  EXPECT_LE(TasksUntilTheShortOnesAreAnswered(kTurn, 500, kPlaces), kMost);
  EXPECT_LE(TasksUntilTheShortOnesAreAnswered(kTurn, 2000, kPlaces), kMost)
      << "the wait grows with the long chains";
}

TEST(ChainTurnTest, WithoutTurnsTheyWaitForTheLongOnesEnd) {
  EXPECT_GE(TasksUntilTheShortOnesAreAnswered(1 << 20, 500, kPlaces), 450u);
}

// Else tasks would be smaller, and each chain that gave its place away for nothing would wait for another one.
TEST(ChainTurnTest, NoMorePlacesAreGivenAwayThanWhoWaitsLacks) {
  std::vector<int32_t> nodes;  // of the chains' tasks
  WorldOptions options;
  options.scheduler.chain_turn = 16;
  options.device = [&](SimDeviceOptions& device) {
    device.task_ns = [&](const BatchedTask& task) {
      if (task.cell == kChain) nodes.push_back(task.num_nodes);
      return int64_t{1000};
    };
  };
  World world(options);
  const auto model = MakeModel(ModelId(1), {kPlaces, 8, 8, 8});
  world.Add(model);
  for (uint64_t i = 0; i + 1 < kPlaces; ++i) world.Submit(world.Sentence(model, 200), i);
  for (int i = 0; i < 100; ++i) world.Step();  // their turns are over
  world.Submit(world.Sentence(model, 200), 10);
  world.Submit(world.Sentence(model, 200), 11);
  nodes.clear();
  for (int i = 0; i < 60; ++i) world.Step();
  ASSERT_GT(nodes.size(), 10u);
  for (size_t i = 0; i < nodes.size(); ++i) EXPECT_EQ(nodes[i], kPlaces) << "task " << i;
  world.Run();
  EXPECT_EQ(world.Finished().size(), size_t{kPlaces} + 1);
  world.ExpectClean();
}

// Chains, stopping ones among them, that give way again and again: the simulated memory knows what each row must be
// made of, and the answers are those of chains that never gave way.
TEST(ChainTurnTest, AChainThatGaveWayGoesOnWhereItWas) {
  constexpr uint32_t kSeed = 7;
  std::map<int, std::map<uint64_t, std::vector<uint8_t>>> answers;  // by turn, tag
  for (const int turn : {1, 2, 7, 1 << 20}) {
    std::mt19937 random(kSeed);
    WorldOptions options;
    options.scheduler.chain_turn = turn;
    options.scheduler.max_tasks_in_flight = 3;
    World world(options);
    const auto model = MakeModel(ModelId(1), {3, 8, 8, 8, 3});
    world.Add(model);
    for (uint64_t i = 0; i < 60; ++i) {
      const int32_t length = 1 + static_cast<int32_t>(random() % 40);
      if (i % 3 != 0) {
        world.Submit(world.Sentence(model, length), i);
        continue;
      }
      world.Submit(world.Decoding(model, 50, 3), i);
    }
    for (uint32_t n = 0; world.Step(); ++n) {
      if (n % 50 == 0) {
        ASSERT_TRUE(world.scheduler().CheckInvariants().ok())
            << world.scheduler().CheckInvariants() << " turn " << turn;
      }
    }
    for (const auto& r : world.Finished()) {
      ASSERT_TRUE(r->status.ok()) << r->status;
      const auto bytes = r->graph.tensors()[0].bytes;
      const auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
      answers[turn][r->tag].assign(first, first + bytes.size());
    }
    EXPECT_EQ(answers[turn].size(), 60u);
    EXPECT_EQ(answers[turn], answers[1]) << "turn " << turn;
    world.ExpectClean();
  }
}

}  // namespace
}  // namespace cellbatch
