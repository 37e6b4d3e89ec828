// 10^5 random requests through the real scheduler, a seed at a time (10^4 under sanitizers). A seed
// that fails prints what it drew; `tests/bench/run simulation --seed=N` runs it again by hand.
#include "tests/simulation/simulation.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace cellbatch::sim {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kRequestsOfASeed = 100;
#else
constexpr int64_t kRequestsOfASeed = 1000;
#endif
constexpr uint64_t kSeeds = 100;

SimulationReport ExpectClean(const SimulationOptions& options) {
  SCOPED_TRACE(Describe(options));
  const SimulationReport report = Simulate(options);
  EXPECT_EQ(report.violation_count, 0);
  for (const std::string& v : report.violations) ADD_FAILURE() << v;
  // Where the last device is lost, nothing more can be loaded, and so submitted.
  if (!report.all_lost) {
    EXPECT_EQ(report.submitted, options.requests);
  }
  return report;
}

class RandomSimulationTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomSimulationTest, EveryRequestGetsItsOneRightAnswer) {
  ExpectClean(WithUnfolding(RandomOptions(GetParam(), kRequestsOfASeed)));
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomSimulationTest, ::testing::Range(uint64_t{1}, kSeeds + 1));

class ShapeTest : public ::testing::TestWithParam<int> {};

TEST_P(ShapeTest, RunsWithScarceRowsAndForcedStealsOnFourWorkers) {
  SimulationOptions o;
  o.seed = 7;
  o.requests = kRequestsOfASeed;
  o.workers = 4;
  o.max_tasks_in_flight = 3;
  o.stealing = Stealing::kAlways;
  o.row_budget_bytes = 16 << 10;
  o.cancel_permille = 30;
  o.delay_chance = 0.05;
  o.shapes = {static_cast<Shape>(GetParam())};
  const SimulationReport report = ExpectClean(o);
  EXPECT_GT(report.tally.ok, 0);
}
INSTANTIATE_TEST_SUITE_P(Shapes, ShapeTest,
                         ::testing::Range(0, static_cast<int>(Shape::kNumShapes)));

class PolicyTest : public ::testing::TestWithParam<PolicyKind> {};

SimulationOptions WithPolicy(PolicyKind policy, uint64_t seed) {
  SimulationOptions o = WithUnfolding(RandomOptions(seed, kRequestsOfASeed / 2));
  o.policy = policy;
  o.join = {};
  return o;
}

// Nobody starves within the bounds of README.md, priorities are kept, and what policies see is counted anew.
TEST_P(PolicyTest, EverybodyGetsATurnAndItsRightAnswer) {
  int64_t ok = 0;
  for (uint64_t seed = 201; seed <= 206; ++seed) {
    ok += ExpectClean(WithPolicy(GetParam(), seed)).tally.ok;
  }
  EXPECT_GT(ok, 0);
}

TEST_P(PolicyTest, TheSameSeedTakesTheSameSteps) {
  const SimulationOptions o = WithPolicy(GetParam(), 207);
  const SimulationReport a = Simulate(o), b = Simulate(o);
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.tally.tasks, b.tally.tasks);
  EXPECT_EQ(a.tally.nodes, b.tally.nodes);
}
INSTANTIATE_TEST_SUITE_P(Policies, PolicyTest,
                         ::testing::Values(PolicyKind::kAgenda, PolicyKind::kAgendaOfRemaining,
                                           PolicyKind::kDepth, PolicyKind::kLbGreedy,
                                           PolicyKind::kFsm, PolicyKind::kRandom),
                         [](const auto& info) { return std::string(Name(info.param)); });

// Every third type waits for its batch to fill: nobody starves by it, and no batch runs that should have waited.
TEST(WaitingTest, WhatMayWaitDoesAndNotForEver) {
  int64_t compared = 0;
  for (const PolicyKind policy : {PolicyKind::kCellular, PolicyKind::kLbGreedy, PolicyKind::kFsm,
                                  PolicyKind::kAgenda, PolicyKind::kDepth}) {
    for (uint64_t seed = 241; seed <= 246; ++seed) {
      SimulationOptions o = WithPolicy(policy, seed);
      o.may_wait = true;
      o.in_flight = 40;
      compared += ExpectClean(o).longest.waits_compared;
    }
  }
  EXPECT_GT(compared, 1000);
}

class WholeGraphsTest : public ::testing::TestWithParam<PolicyKind> {};

// Batches of whole graphs, of 1 to 16 requests, under every policy that they are compared with: every request is
// answered, whatever else joins, is cancelled or fails meanwhile, as soon as it is done or with the whole batch. Who waits
// for a batch's end waits in the line, for which no bound is stated; types and subgraphs of a batch that runs keep theirs.
TEST_P(WholeGraphsTest, EveryRequestGetsItsOneRightAnswer) {
  int64_t ok = 0;
  for (uint64_t seed = 211; seed <= 215; ++seed) {
    for (const bool together : {false, true}) {
      SimulationOptions o = WithPolicy(GetParam(), seed);
      o.join.whole_graphs = 1 << (seed - 211);
      o.join.batching.leave_together = together;
      ok += ExpectClean(o).tally.ok;
    }
  }
  EXPECT_GT(ok, 0);
}
INSTANTIATE_TEST_SUITE_P(Policies, WholeGraphsTest,
                         ::testing::Values(PolicyKind::kCellular, PolicyKind::kDepth,
                                           PolicyKind::kAgenda),
                         [](const auto& info) { return std::string(Name(info.param)); });

// Sequences padded to the longest of their batch, to their bucket, or only sorted by length: the answers are the same
// bits, padding is computed and counted (and reads nothing of anybody's), whatever is cancelled or fails meanwhile.
TEST(PaddedGraphsTest, EveryRequestGetsItsOneRightAnswer) {
  using Padding = GraphBatching::Padding;
  int64_t ok = 0, padding = 0;
  for (uint64_t seed = 221; seed <= 232; ++seed) {
    SimulationOptions o = WithPolicy(PolicyKind::kCellular, seed);
    o.join.whole_graphs = 1 + static_cast<int64_t>(seed % 9);
    o.join.batching = {.padding = static_cast<Padding>(seed % 3),
                       .bucket_width = seed % 2 == 0 ? static_cast<int32_t>(seed % 7) : 0,
                       .leave_together = seed % 5 == 0};
    if (o.join.batching.padding == Padding::kBucket) o.join.batching.bucket_width = 3;
    const SimulationReport report = ExpectClean(o);
    ok += report.tally.ok;
    padding += report.tally.padding;
    if (o.join.batching.padding == Padding::kNone) {
      EXPECT_EQ(report.tally.padding, 0);
    }
  }
  EXPECT_GT(ok, 0);
  EXPECT_GT(padding, 0);
}

// BatchMaker waits until everything outside a component of one type is there: a decoder that feeds
// its own projection waits for ever.
TEST(SimulationTest, DecodersAndProjectionsThatAlternateDoNotDeadlock) {
  for (int workers = 1; workers <= 2; ++workers) {
    SimulationOptions o;
    o.requests = 300;
    o.workers = workers;
    o.cancel_permille = 0;
    o.shapes = {Shape::kAlternation};
    EXPECT_EQ(ExpectClean(o).tally.ok, 300);
  }
}

TEST(SimulationTest, ComponentsOfOneTypeThatAreNotConvexDoNotDeadlock) {
  SimulationOptions o;
  o.requests = 300;
  o.cancel_permille = 0;
  o.shapes = {Shape::kDag, Shape::kLattice};
  EXPECT_EQ(ExpectClean(o).tally.ok, 300);
}

TEST(SimulationTest, OneAfterTheOtherWorksToo) {
  SimulationOptions o;
  o.requests = 200;
  o.in_flight = 1;
  o.cancel_permille = 0;
  EXPECT_EQ(ExpectClean(o).tally.ok, 200);
}

TEST(SimulationTest, WordsAreToldOfAsTheyComeHoweverLateTheyAreTaken) {
  for (const double late : {0.0, 0.9}) {
    SimulationOptions o;
    o.requests = 300;
    o.max_tasks_in_flight = 3;
    o.in_flight = 10;
    o.late_take_chance = late;
    o.shapes = {Shape::kTranslation};
    const SimulationReport report = ExpectClean(o);
    EXPECT_GT(report.tally.news, 300);
    EXPECT_GT(report.tally.overrun, 0);
  }
}

TEST(SimulationTest, RequestsThatGrowKeepTheirRowsBetweenPiecesAndAreAnsweredOnce) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SimulationOptions o;
    o.seed = seed;
    o.requests = 200;
    o.workers = 1 + static_cast<int>(seed % 4);
    o.memories = o.workers > 2 ? 2 : 1;
    o.max_tasks_in_flight = 3;
    o.stealing = static_cast<Stealing>(seed % 3);
    o.row_budget_bytes = 16 << 10;
    o.cancel_permille = seed % 2 == 0 ? 30 : 0;
    o.late_take_chance = 0.5;
    o.fail_chance = seed % 5 == 0 ? 0.0005 : 0;
    o.grow_chance = 1;
    const SimulationReport report = ExpectClean(o);
    EXPECT_GT(report.tally.pieces, 200);
    EXPECT_EQ(report.tally.cancelled + report.tally.expired + report.tally.refused > 0,
              o.cancel_permille > 0);
  }
}

TEST(SimulationTest, WhatADeviceTakesDownIsAnsweredAndTheOthersGoOn) {
  int64_t failed = 0, ok = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimulationOptions o;
    o.seed = seed;
    o.requests = 200;
    o.workers = 4;
    o.memories = 1 + static_cast<int>(seed % 2);
    o.stealing = static_cast<Stealing>(seed % 3);
    o.fail_chance = 0.002;
    const SimulationReport report = ExpectClean(o);
    failed += report.tally.failed;
    ok += report.tally.ok;
  }
  EXPECT_GT(failed, 0);
  EXPECT_GT(ok, 1000);
}

// Nothing says so but the time that a task takes.
TEST(SimulationTest, ADeviceThatHangsIsGivenUpAndTheOthersGoOn) {
  int64_t hung = 0, failed = 0, ok = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimulationOptions o;
    o.seed = seed;
    o.requests = 200;
    o.workers = 4;
    o.memories = 1 + static_cast<int>(seed % 2);
    o.stealing = static_cast<Stealing>(seed % 3);
    o.asynchronous = true;
    o.cancel_permille = seed % 2 == 0 ? 30 : 0;
    o.grow_chance = seed % 4 == 0 ? 0.3 : 0;
    o.delay_chance = 0.02;
    o.hang_chance = 0.002;
    o.task_time_limit_ns = 100 * (o.cost.task_ns + o.limits.max_batch * o.cost.node_ns);
    o.may_lose_all = seed % 5 == 0;
    const SimulationReport report = ExpectClean(o);
    hung += report.hung;
    failed += report.tally.failed;
    ok += report.tally.ok;
  }
  EXPECT_GT(hung, 30);
  EXPECT_GT(failed, 0);
  EXPECT_GT(ok, 1000);
}

// What of a model's own devices is lost is told, by a load, too; what of the other kind is, is nothing to it.
TEST(SimulationTest, ModelsOfTwoKindsRunWhereTheyLiveAndOneKindMayBeLost) {
  SimulationReport all;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SimulationOptions o;
    o.seed = seed;
    o.requests = 250;
    o.workers = 2 + static_cast<int>(seed % 3);
    o.memories = 2;
    o.two_kinds = true;
    o.models = 3;
    o.most_models = 5;
    o.stealing = static_cast<Stealing>(seed % 3);
    o.row_budget_bytes = 16 << 10;
    o.host_blocks = seed % 2 == 0;
    o.change_chance = 0.003;
    o.grow_chance = 0.2;
    o.cancel_permille = 5;
    o.asynchronous = seed % 4 < 2;
    o.fail_chance = o.asynchronous ? 0 : 0.001;
    o.hang_chance = o.asynchronous ? 0.001 : 0;
    o.task_time_limit_ns = 100 * (o.cost.task_ns + o.limits.max_batch * o.cost.node_ns);
    const SimulationReport report = ExpectClean(o);
    all.tally.ok += report.tally.ok;
    all.tally.failed += report.tally.failed;
    all.failed_loads += report.failed_loads;
    all.unloads += report.unloads;
    EXPECT_FALSE(report.all_lost);
  }
  EXPECT_GT(all.tally.ok, 2000);
  EXPECT_GT(all.tally.failed, 100);
  EXPECT_GT(all.failed_loads, 0) << "no model was loaded for a kind that was lost";
  EXPECT_GT(all.unloads, 0);
}

SimulationOptions ModelsComeAndGoTillNoDeviceIsLeft(uint64_t seed) {
  SimulationOptions o;
  o.seed = seed;
  o.requests = 200;
  o.workers = 1 + static_cast<int>(seed % 4);
  o.memories = o.workers > 1 ? 1 + static_cast<int>(seed % 2) : 1;
  o.models = 2;
  o.stealing = static_cast<Stealing>(seed % 3);
  o.grow_chance = 0.3;
  o.change_chance = 0.02;
  o.may_lose_all = true;
  return o;
}

TEST(SimulationTest, DevicesHangWhileModelsAreLoadedAndUnloadedToTheLastOne) {
  int64_t failed_loads = 0, unloads = 0, hung = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SimulationOptions o = ModelsComeAndGoTillNoDeviceIsLeft(seed);
    o.asynchronous = true;
    o.hang_chance = 0.002;
    o.task_time_limit_ns = 100 * (o.cost.task_ns + o.limits.max_batch * o.cost.node_ns);
    const SimulationReport report = ExpectClean(o);
    failed_loads += report.failed_loads;
    unloads += report.unloads;
    hung += report.hung;
  }
  EXPECT_GT(failed_loads, 0) << "no model was being loaded when the last device hung, or after";
  EXPECT_GT(unloads, 0);
  EXPECT_GT(hung, 40);
}

TEST(SimulationTest, ModelsComeAndGoWhileRequestsRun) {
  SimulationReport all;
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    SimulationOptions o;
    o.seed = seed;
    o.requests = 300;
    o.workers = 1 + static_cast<int>(seed % 3);
    o.memories = o.workers > 2 ? 2 : 1;
    o.models = 2;
    o.grow_chance = 0.3;
    o.late_take_chance = 0.5;
    o.cancel_permille = 5;
    o.change_chance = 0.02;
    o.calibrate = seed % 4 == 0;
    const SimulationReport report = ExpectClean(o);
    all.loads += report.loads;
    all.unloads += report.unloads;
    all.tally.warm_tasks += report.tally.warm_tasks;
    all.tally.ok += report.tally.ok;
  }
  EXPECT_GT(all.loads, 80);
  EXPECT_GT(all.unloads, 40);
  EXPECT_GT(all.tally.warm_tasks, 12 * all.loads);
  EXPECT_GT(all.tally.ok, 4000);
}

// Or none that their devices' clocks can tell: the pauses of a warm-up beside others must end.
TEST(SimulationTest, ModelsComeAndGoWhereTasksTakeNoTime) {
  int64_t loads = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SimulationOptions o;
    o.seed = seed;
    o.requests = 300;
    o.workers = 1 + static_cast<int>(seed % 3);
    o.cost = {0, 0};
    o.change_chance = 0.02;
    loads += ExpectClean(o).loads;
  }
  EXPECT_GT(loads, 20);
}

TEST(SimulationTest, DevicesDieWhileModelsAreLoadedAndUnloadedToTheLastOne) {
  int64_t failed_loads = 0, unloads = 0, failed = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SimulationOptions o = ModelsComeAndGoTillNoDeviceIsLeft(seed);
    o.fail_chance = 0.002;
    const SimulationReport report = ExpectClean(o);
    failed_loads += report.failed_loads;
    unloads += report.unloads;
    failed += report.tally.failed;
  }
  EXPECT_GT(failed_loads, 0) << "no model was being loaded when the last device died, or after";
  EXPECT_GT(unloads, 0);
  EXPECT_GT(failed, 0);
}

TEST(SimulationTest, TheSameSeedTakesTheSameSteps) {
  SimulationOptions o = RandomOptions(5, 300);
  o.change_chance = 0.005;
  const SimulationReport a = Simulate(o), b = Simulate(o);
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.loads, b.loads);
  EXPECT_EQ(a.tally.tasks, b.tally.tasks);
  EXPECT_EQ(a.tally.nodes, b.tally.nodes);
  EXPECT_EQ(a.tally.ok, b.tally.ok);
}

}  // namespace
}  // namespace cellbatch::sim
