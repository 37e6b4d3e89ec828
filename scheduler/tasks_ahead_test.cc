// How far ahead of a device that asks for many tasks the manager goes: far with chains, which are in each of them whoever joins;
// not with what would only become smaller tasks, or be for nothing, or make others wait.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using namespace scheduler_testing;

// Devices that run four tasks a launch, two launches ahead.
WorldOptions Eight() {
  WorldOptions options;
  options.device = [](SimDeviceOptions& o) {
    o.runs = SimRuns::kInTime;
    o.tasks_a_launch = 4;
    o.launch_ns = 500;
  };
  return options;
}

int64_t InFlight(World& world) { return world.scheduler().stats().Devices()[0].tasks_in_flight; }

// The most that are in flight while everything runs to its end.
int64_t MostInFlight(World& world) {
  int64_t most = 0;
  do {
    most = std::max(most, InFlight(world));
  } while (world.Step());
  return most;
}

std::unique_ptr<Request> Leaf(World& world, const std::shared_ptr<const Model>& model) {
  return world.Make(model, [&](CellGraph& g) {
    const SubgraphId leaf = g.Add(kLeaf, 1, {{.from = world.Tokens(g, 1), .input = kIn0}});
    g.Return(leaf, kH, {}, {.tensor = g.AddTensor("OUTPUT", WireType::kFp32, {4})});
  });
}

void ExpectAnswered(World& world, size_t requests) {
  const auto all = world.Finished();
  EXPECT_EQ(all.size(), requests);
  for (const auto& r : all) EXPECT_TRUE(r->status.ok()) << r->status;
  world.ExpectClean();
}

TEST(TasksAheadTest, AChainRunsAsFarAheadAsItsDeviceAsksFor) {
  World world(Eight());
  const auto model = MakeModel(ModelId(1));
  world.Add(model);
  world.Submit(world.Sentence(model, 40), 0);
  world.scheduler().StepManager();
  EXPECT_EQ(InFlight(world), 8);
  EXPECT_EQ(MostInFlight(world), 8);
  ExpectAnswered(world, 1);
}

// What another one likes to have is many milliseconds of it.
TEST(TasksAheadTest, OfSeveralDevicesTheOneThatAsksForFewestIsHeard) {
  for (const std::string few : {"sim:0", "sim:1"}) {
    WorldOptions options = Eight();
    options.devices = 2;
    const auto eight = options.device;
    options.device = [&](SimDeviceOptions& o) {
      eight(o);
      if (o.name == few) o.tasks_a_launch = 1;
    };
    WorldOptions all_few = options;
    all_few.device = [&](SimDeviceOptions& o) { o.runs = SimRuns::kInTime; };
    const int fewest = World(all_few).scheduler().max_tasks_in_flight();
    ASSERT_LT(fewest, World(Eight()).scheduler().max_tasks_in_flight());
    EXPECT_EQ(World(options).scheduler().max_tasks_in_flight(), fewest) << few;
  }
}

TEST(TasksAheadTest, AChainThatMayStopIsInTwoTasksAtMost) {
  World world(Eight());
  const auto model = MakeModel(ModelId(1));
  world.Add(model);
  constexpr int32_t kCap = 40;
  for (uint64_t i = 0; i < 10; ++i) {
    world.Submit(world.Decoding(model, kCap, 3), i);
  }
  EXPECT_LE(MostInFlight(world), 4) << "two of each of the two types";
  for (const auto& r : world.Finished()) {
    ASSERT_TRUE(r->status.ok()) << r->status;
    const auto* words = reinterpret_cast<const int32_t*>(r->graph.tensors()[0].bytes.data());
    const auto nodes = std::min<int64_t>(std::find(words, words + kCap, 3) - words + 1, kCap);
    EXPECT_LE(r->nodes_executed, 1 + nodes + 1) << "one beyond its stop";
  }
  world.ExpectClean();
}

// Tasks in flight while 50 single nodes run, one a task.
int64_t OfSingleNodes(WorldOptions options) {
  World world(std::move(options));
  const auto model = MakeModel(ModelId(1), {1, 1});
  world.Add(model);
  for (uint64_t i = 0; i < 50; ++i) world.Submit(Leaf(world, model), i);
  const int64_t most = MostInFlight(world);
  ExpectAnswered(world, 50);
  return most;
}

TEST(TasksAheadTest, SingleNodesAreInTwoTasksAtMostSoThatTheseStayLarge) {
  EXPECT_EQ(OfSingleNodes(Eight()), 2);
}

TEST(TasksAheadTest, WhoSaysHowManyTasksMayBeInFlightMeansAllOfThem) {
  WorldOptions options = Eight();
  options.scheduler.max_tasks_in_flight = 5;
  EXPECT_EQ(OfSingleNodes(std::move(options)), 5);
}

TEST(TasksAheadTest, ModelsThatTakeTurnsDoNotWaitForWhatIsFarAhead) {
  World world(Eight());
  const auto first = MakeModel(ModelId(1)), second = MakeModel(ModelId(2));
  world.Add(first);
  world.Add(second);
  world.Submit(world.Sentence(first, 200), 0);
  world.Submit(world.Sentence(second, 40), 1);
  int64_t most_of_two = 0, most_alone = 0;
  do {
    int64_t running = 0;
    for (const LaneStats& lane : world.scheduler().stats().Lanes())
      running += lane.running_requests;
    int64_t& most = running == 2 ? most_of_two : most_alone;
    most = std::max(most, InFlight(world));
  } while (world.Step());
  EXPECT_EQ(most_of_two, 2);
  EXPECT_EQ(most_alone, 8) << "once the second one is answered";
  ExpectAnswered(world, 2);
}

}  // namespace
}  // namespace cellbatch
