// Claims about the world that learners play: what is known of queues by formula comes out, a world that has run is as
// good as a new one, and what tasks and waking take is what it was given.
#include "scheduler/offline/world/serving_world.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "scheduler/policy/agenda_policy.h"
#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using scheduler_testing::kChain;
using scheduler_testing::kHead;
using scheduler_testing::kIn0;
using scheduler_testing::kLeaf;
using scheduler_testing::kTokens;
using scheduler_testing::kY;
using scheduler_testing::MakeModel;

constexpr int64_t kTaskNs = 10'000, kNodeNs = 1'000;

// T(b) = 10 + b microseconds, for each type of the tests' model.
TaskCosts Linear(int32_t max_batch) {
  std::vector<TypeCosts> types(MakeModel(ModelId(1))->types.size());
  for (TypeCosts& type : types) {
    type.max_batch = max_batch;
    for (const int32_t b : {1, 2, 64}) type.points.push_back({b, kTaskNs + b * kNodeNs});
  }
  return *TaskCosts::Of(std::move(types));
}

CellGraph Sealed(CellGraph graph, int max_tasks_in_flight) {
  const absl::Status sealed = graph.Seal(*MakeModel(ModelId(1)), max_tasks_in_flight);
  EXPECT_TRUE(sealed.ok()) << sealed;
  return graph;
}

// Nobody reads them: a world's devices touch no memory.
SubgraphId Tokens(CellGraph& graph, int32_t rows) {
  return graph.AddInput(kTokens, rows, graph.Keep(4 * rows));
}

// Shape n: a chain of n + 1 words and a head.
CellGraph Sentence(int32_t shape, int max_tasks_in_flight) {
  CellGraph graph;
  const SubgraphId tokens = Tokens(graph, shape + 1);
  const SubgraphId chain =
      graph.Add(kChain, shape + 1, {{.from = tokens, .input = kIn0, .first = 0, .stride = 1}});
  const SubgraphId head = graph.Add(kHead, 1, {{.from = chain, .input = kIn0, .first = kLastNode}});
  graph.Return(head, kY, {}, {.tensor = graph.AddTensor("OUTPUT", WireType::kFp32, {2})});
  return Sealed(std::move(graph), max_tasks_in_flight);
}

// One node.
CellGraph Leaf(int32_t, int max_tasks_in_flight) {
  CellGraph graph;
  const SubgraphId tokens = Tokens(graph, 1);
  const SubgraphId leaf = graph.Add(kLeaf, 1, {{.from = tokens, .input = kIn0}});
  graph.Return(leaf, scheduler_testing::kH, {},
               {.tensor = graph.AddTensor("OUTPUT", WireType::kFp32, {4})});
  return Sealed(std::move(graph), max_tasks_in_flight);
}

std::unique_ptr<ServingWorld> Made(MakeGraph make, int32_t max_batch, WorldOptions options = {},
                                   LaneRules rules = nullptr) {
  options.row_budget_bytes = 16 << 20;
  std::vector<WorldLane> lanes;
  lanes.push_back({MakeModel(ModelId(1)), Linear(max_batch), std::move(make), std::move(rules)});
  return std::make_unique<ServingWorld>(options, std::move(lanes));
}

std::vector<int64_t> Latencies(const WorldReport& report) {
  std::vector<int64_t> latencies;
  for (const WorldAnswer& answer : report.answers) latencies.push_back(answer.latency_ns());
  return latencies;
}

TEST(ServingWorldTest, ARequestAloneTakesWhatItsTasksTakeAndQueuesForNothing) {
  const auto world = Made(Sentence, 8);
  const std::vector<Arrival> arrivals = {{5'000, 4}};
  const WorldReport report = world->Run(arrivals);
  ASSERT_TRUE(report.answers[0].ok);
  EXPECT_EQ(report.answers[0].queue_ns, 0);
  EXPECT_EQ(report.answers[0].compute_ns, 6 * (kTaskNs + kNodeNs)) << "five words and a head";
  EXPECT_EQ(report.answers[0].nodes, 6);
  EXPECT_EQ(report.tasks, 6);
  EXPECT_EQ(report.nodes, 6);
  EXPECT_EQ(report.failed, 0);
}

TEST(ServingWorldTest, WhoArrivesTogetherRunsInOneBatch) {
  const auto world = Made(Sentence, 8);
  const std::vector<Arrival> arrivals = {{0, 4}, {0, 4}, {0, 4}};
  const WorldReport report = world->Run(arrivals);
  EXPECT_EQ(report.tasks, 6);
  EXPECT_DOUBLE_EQ(report.mean_fill(), 3);
  EXPECT_EQ(report.p99_ns, 6 * (kTaskNs + 3 * kNodeNs));
}

TEST(ServingWorldTest, WhoArrivesDuringATaskWaitsForItsEnd) {
  const auto world = Made(Leaf, 8);
  const std::vector<Arrival> arrivals = {{0, 0}, {1'000, 0}};
  const WorldReport report = world->Run(arrivals);
  EXPECT_EQ(report.answers[1].queue_ns, kTaskNs + kNodeNs - 1'000);
  EXPECT_EQ(report.answers[1].compute_ns, kTaskNs + kNodeNs);
}

TEST(ServingWorldTest, AWorldThatSleepsSeesWhatArrivesOnceItIsAwake) {
  const auto world = Made(Leaf, 8, {.wake_ns = 30'000});
  // The second comes while it wakes, the third while it still looks around, the fourth finds it asleep again.
  const std::vector<Arrival> arrivals = {{60'000, 0}, {70'000, 0}, {110'000, 0}, {500'000, 0}};
  const WorldReport report = world->Run(arrivals);
  EXPECT_EQ(report.answers[0].queue_ns, 30'000);
  EXPECT_EQ(report.answers[1].queue_ns, 20'000);
  EXPECT_EQ(report.answers[2].queue_ns, 0);
  EXPECT_EQ(report.answers[3].queue_ns, 30'000);
}

// Pollaczek and Khinchine: of one server whose services all take T, a part r of the time, the mean wait is
// r T / (2 (1 - r)).
TEST(ServingWorldTest, BatchesOfOneWaitAsAQueueOfFixedServiceTimesDoes) {
  constexpr double kServiceNs = kTaskNs + kNodeNs;
  constexpr uint64_t kSeed = 5;
  const auto world = Made(Leaf, 1);
  for (const double load : {0.3, 0.6, 0.8}) {
    const auto arrivals = PoissonArrivals(load / kServiceNs * 1e9, 200'000, 1, kSeed);
    const WorldReport report = world->Run(arrivals, 1'000);
    const double wait = load * kServiceNs / (2 * (1 - load));
    EXPECT_NEAR(report.mean_ns - kServiceNs, wait, 0.05 * wait)
        << "load " << load << " seed " << kSeed;
    EXPECT_NEAR(report.device_busy, load, 0.02);
  }
}

TEST(ServingWorldTest, AClosedLoopAnswersFullBatchesAtTheRateTheyTake) {
  const auto world = Made(Leaf, 8);
  const std::vector<Arrival> arrivals(4'000);
  const double per_second = 8.0 / (kTaskNs + 8 * kNodeNs) * 1e9;
  const WorldReport report = world->RunClosed(arrivals, 32);
  EXPECT_NEAR(report.requests_per_s, per_second, 0.01 * per_second);
  EXPECT_DOUBLE_EQ(report.mean_fill(), 8);
  const auto two = Made(Leaf, 8, {.devices = 2, .runs_by_itself = true});
  EXPECT_NEAR(two->RunClosed(arrivals, 64).requests_per_s, 2 * per_second, 0.02 * per_second);
}

TEST(ServingWorldTest, DevicesWithMemoriesOfTheirOwnAnswerAsManyTimesAsMuch) {
  // No step of a chain leaves its memory, so this is what joining divides well, and what an idle device is given.
  const auto per_second = [](int devices) {
    const auto world =
        Made(Sentence, 8, {.devices = devices, .own_memories = true, .runs_by_itself = true});
    std::vector<Arrival> arrivals = PoissonArrivals(1e6, 20'000, 12, /*seed=*/7);
    return world->RunClosed(arrivals, 64 * devices).requests_per_s;
  };
  const double one = per_second(1);
  for (const int devices : {2, 4}) EXPECT_GT(per_second(devices), 0.95 * devices * one) << devices;
}

// A manager whose every step takes longer than a task: devices wait for it, and two are no faster than one.
TEST(ServingWorldTest, WhatTheManagerTakesPassesInTheWorld) {
  constexpr int64_t kStepNs = 100'000;
  const auto run = [](int devices) {
    int64_t read = 0;
    WorldOptions options = {.devices = devices, .own_memories = true, .runs_by_itself = true};
    options.manager_ns = [&read] { return read += kStepNs; };
    const std::vector<Arrival> arrivals(2'000);
    return Made(Leaf, 8, options)->RunClosed(arrivals, 64);
  };
  const WorldReport one = run(1), two = run(2);
  EXPECT_GE(one.manager_ns, one.tasks / 2 * kStepNs) << "two tasks a device at a time";
  EXPECT_LT(one.device_busy, 0.5);
  EXPECT_LT(two.device_busy, one.device_busy * 1.1);
  EXPECT_EQ(Made(Leaf, 8)->RunClosed(std::vector<Arrival>(10), 4).manager_ns, 0);
}

TEST(ServingWorldTest, TheSameArrivalsGiveTheSameInANewWorldAndInOneThatHasRun) {
  constexpr uint64_t kSeed = 11;
  const auto agenda = [] {
    return LaneRules(std::make_unique<const AgendaPolicy>(AgendaMean::kRemaining));
  };
  for (const bool by_itself : {false, true}) {
    const WorldOptions options = {.devices = by_itself ? 2 : 1, .runs_by_itself = by_itself};
    const auto arrivals = PoissonArrivals(by_itself ? 25'000 : 12'000, 3'000, 20, kSeed);
    const auto others = PoissonArrivals(15'000, 2'000, 20, kSeed + 1);
    const auto fresh = Made(Sentence, 8, options, agenda());
    const auto used = Made(Sentence, 8, options, agenda());
    used->Run(others);
    const WorldReport one = fresh->Run(arrivals), two = used->Run(arrivals);
    EXPECT_EQ(Latencies(one), Latencies(two)) << "seed " << kSeed;
    EXPECT_EQ(one.tasks, two.tasks);
    EXPECT_EQ(one.p99_ns, two.p99_ns);
    EXPECT_GT(one.mean_fill(), 1.2) << "too little to do: nothing is shown";
    EXPECT_TRUE(used->scheduler().CheckInvariants().ok());
  }
}

TEST(ServingWorldTest, EverybodyIsAnsweredWhereThereAreFewerSlotsThanRequests) {
  const auto world = Made(Sentence, 4, {.max_requests = 3});
  const std::vector<Arrival> arrivals(50, Arrival{0, 6});
  const WorldReport report = world->Run(arrivals);
  EXPECT_EQ(report.failed, 0);
  EXPECT_EQ(report.nodes, 50 * 8);
  EXPECT_GT(report.answers[49].queue_ns, report.answers[0].queue_ns) << "from its arrival on";
}

TEST(ServingWorldTest, ByHandItTellsOfEveryTaskAndEveryAnswer) {
  std::vector<std::pair<int32_t, int32_t>> tasks;
  std::vector<uint64_t> answered;
  WorldOptions options;
  options.started = [&](int, const BatchedTask& task) {
    tasks.emplace_back(task.cell.value(), task.num_nodes);
  };
  options.answered = [&](uint64_t tag, const Request& request) {
    EXPECT_TRUE(request.status.ok());
    answered.push_back(tag);
  };
  const auto world = Made(Sentence, 8, options);
  ASSERT_TRUE(world->Submit(0, 0, 7));
  ASSERT_TRUE(world->Submit(0, 1, 9));
  while (world->Step() || world->Rest()) {
  }
  EXPECT_EQ(answered, (std::vector<uint64_t>{7, 9}));
  using Task = std::pair<int32_t, int32_t>;
  int32_t nodes = 0;
  for (const Task& task : tasks) nodes += task.second;
  EXPECT_EQ(tasks.front(), Task(kChain.value(), 2));
  EXPECT_EQ(nodes, 2 + 3);
}

TEST(ServingWorldTest, LanesShareADeviceAndEachHasItsOwnCosts) {
  std::vector<WorldLane> lanes;
  lanes.push_back({MakeModel(ModelId(1)), Linear(8), Leaf});
  lanes.push_back(
      {MakeModel(ModelId(1)), Linear(8).Slower(std::vector<double>(5, 2), 3'000), Leaf});
  ServingWorld world({}, std::move(lanes));
  const std::vector<Arrival> arrivals = {{0, 0, 0}, {1'000'000, 0, 1}};
  const WorldReport report = world.Run(arrivals);
  EXPECT_EQ(report.answers[0].compute_ns, kTaskNs + kNodeNs);
  EXPECT_EQ(report.answers[1].compute_ns, 2 * (kTaskNs + kNodeNs) + 3'000);
}

TEST(TaskCostsTest, BetweenMeasuredSizesTheyAreInterpolatedAndBeyondThemTheyGoOn) {
  const TaskCosts costs = *TaskCosts::Of({{8, {{2, 100}, {4, 140}, {8, 300}}}});
  const CellTypeId type(0);
  EXPECT_EQ(costs.Ns(type, 1), 100);
  EXPECT_EQ(costs.Ns(type, 2), 100);
  EXPECT_EQ(costs.Ns(type, 3), 120);
  EXPECT_EQ(costs.Ns(type, 6), 220);
  EXPECT_EQ(costs.Ns(type, 8), 300);
  EXPECT_EQ(costs.Ns(type, 10), 380);
  EXPECT_EQ(TaskCosts::Of({{8, {{1, 50}}}})->Ns(type, 3), 150);
}

TEST(TaskCostsTest, WhatCannotBeCostsIsRefused) {
  EXPECT_FALSE(TaskCosts::Of({{8, {}}}).ok());
  EXPECT_FALSE(TaskCosts::Of({{0, {{1, 50}}}}).ok());
  EXPECT_FALSE(TaskCosts::Of({{8, {{2, 50}, {2, 60}}}}).ok());
  EXPECT_FALSE(TaskCosts::Of({{8, {{1, 0}}}}).ok());
  EXPECT_FALSE(TaskCosts::Of({{8, {{1 << 20, 5}}}}).ok());
  EXPECT_TRUE(TaskCosts::Of({{8, {{1, 50}}, 8}}).ok());
  EXPECT_FALSE(TaskCosts::Of({{8, {{1, 50}}, 7}}).ok()) << "a peak below max_batch";
  EXPECT_FALSE(TaskCosts::Of({{8, {{1, 50}}, 1 << 20}}).ok());
  const auto model = MakeModel(ModelId(1));
  EXPECT_FALSE(TaskCosts::Of(absl::Span<const CellTypeCalibration>(), 0, *model).ok());
}

TEST(ArrivalsTest, PoissonArrivalsComeAtTheirRateEachShapeAsOftenAsAnyOther) {
  constexpr uint64_t kSeed = 3;
  const std::vector<Arrival> arrivals = PoissonArrivals(1'000, 100'000, 7, kSeed);
  std::map<int32_t, int> of_shape;
  double sum = 0, squares = 0;
  int64_t before = 0;
  for (const Arrival& arrival : arrivals) {
    ASSERT_GE(arrival.at_ns, before);
    const double gap = static_cast<double>(arrival.at_ns - before) * 1e-6;
    sum += gap;
    squares += gap * gap;
    before = arrival.at_ns;
    ++of_shape[arrival.shape];
  }
  EXPECT_NEAR(sum / 1e5, 1, 0.02) << "ms, seed " << kSeed;
  EXPECT_NEAR(squares / 1e5, 2, 0.1) << "as far apart as exponential gaps are";
  ASSERT_EQ(of_shape.size(), 7u);
  for (const auto& [shape, count] : of_shape) EXPECT_NEAR(count, 100'000 / 7, 1) << shape;
  const std::vector<Arrival> faster = AtAnotherRate(arrivals, 2);
  EXPECT_NEAR(static_cast<double>(faster.back().at_ns), static_cast<double>(before) / 2, 1);
  EXPECT_EQ(faster.back().shape, arrivals.back().shape);
}

}  // namespace
}  // namespace cellbatch
