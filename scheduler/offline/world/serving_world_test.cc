// Claims about the world that learners play: what is known of queues by formula comes out, a world that has run is as
// good as a new one, and what tasks and waking take is what it was given.
#include "scheduler/offline/world/serving_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
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

TEST(QuantileTest, ItIsTheLeastValueThatSoManyDoNotExceed) {
  std::vector<int64_t> ten = {7, 3, 10, 1, 9, 2, 8, 4, 6, 5};
  EXPECT_EQ(QuantileOf(ten, 0.5), 5);
  EXPECT_EQ(QuantileOf(ten, 0.51), 6);
  EXPECT_EQ(QuantileOf(ten, 0.9), 9);
  EXPECT_EQ(QuantileOf(ten, 0.99), 10);
  EXPECT_EQ(QuantileOf(ten, 1), 10);
  EXPECT_EQ(QuantileOf(ten, 0), 1);
  EXPECT_EQ(QuantileOf({4}, 0.99), 4);
  EXPECT_EQ(QuantileOf({}, 0.5), 0);
}

// Leaves alone take 11, 22 and 33 us, by when the machine was how fast: far from each other, nobody waits.
TEST(ServingWorldTest, AReportsFiguresAreThoseOfItsAnswersAndOfNobodyWhoIsSkipped) {
  WorldOptions options;
  options.pace.resize(5);
  options.pace[1] = {{0, 1}, {2'000'000, 2}, {5'000'000, 3}, {9'000'000, 1}};
  const auto world = Made(Leaf, 8, options);
  constexpr int64_t kAlone = kTaskNs + kNodeNs;
  const std::vector<Arrival> arrivals = {
      {1'000'000, 0}, {3'000'000, 0}, {4'000'000, 0}, {6'000'000, 0}, {7'000'000, 0}};
  const WorldReport all = world->Run(arrivals);
  EXPECT_EQ(Latencies(all),
            (std::vector<int64_t>{kAlone, 2 * kAlone, 2 * kAlone, 3 * kAlone, 3 * kAlone}));
  EXPECT_DOUBLE_EQ(all.mean_ns, 11 * kAlone / 5.0);
  EXPECT_EQ(all.p50_ns, 2 * kAlone);
  EXPECT_EQ(all.p99_ns, 3 * kAlone);
  EXPECT_DOUBLE_EQ(all.requests_per_s, 5e9 / (6'000'000 + 3 * kAlone))
      << "from the first arrival to the last answer";
  const WorldReport last = Made(Leaf, 8, options)->Run(arrivals, 3);
  EXPECT_DOUBLE_EQ(last.mean_ns, 3 * kAlone);
  EXPECT_EQ(last.p50_ns, 3 * kAlone);
  EXPECT_EQ(last.tasks, 5) << "they ran";
}

TEST(ServingWorldTest, APaceHoldsFromItsMomentOnAndBeginsAnewWithTheLast) {
  WorldOptions options;
  options.pace.resize(5);
  options.pace[1] = {{0, 1}, {100'000, 3}, {200'000, 7}};
  const auto world = Made(Leaf, 8, options);
  constexpr int64_t kAlone = kTaskNs + kNodeNs;
  const std::vector<Arrival> arrivals = {{0, 0},       {99'999, 0},  {150'000, 0},
                                         {200'000, 0}, {300'000, 0}, {400'000, 0}};
  const WorldReport report = world->Run(arrivals);
  EXPECT_EQ(report.answers[0].compute_ns, kAlone);
  EXPECT_EQ(report.answers[1].compute_ns, kAlone);
  EXPECT_EQ(report.answers[2].compute_ns, 3 * kAlone);
  EXPECT_EQ(report.answers[3].compute_ns, kAlone);
  EXPECT_EQ(report.answers[4].compute_ns, 3 * kAlone);
  EXPECT_EQ(report.answers[5].compute_ns, kAlone);
  const WorldReport sentence = Made(Sentence, 8, options)->Run(std::vector<Arrival>{{110'000, 0}});
  EXPECT_EQ(sentence.answers[0].compute_ns, 2 * kAlone) << "of leaves alone";
}

TEST(ServingWorldTest, AStallHoldsATaskForWhatIsLeftOfItAndForOneThatComesMeanwhile) {
  constexpr int64_t kAlone = kTaskNs + kNodeNs;
  const auto takes = [](int64_t at_ns, std::vector<WorldStall> stalls) {
    WorldOptions options;
    options.stalls = std::move(stalls);
    const std::vector<Arrival> one = {{at_ns, 0}};
    return Made(Leaf, 8, options)->Run(one).answers[0].compute_ns;
  };
  EXPECT_EQ(takes(80'000, {{100'000, 50'000}}), kAlone) << "it is done before";
  EXPECT_EQ(takes(95'000, {{100'000, 50'000}}), kAlone + 50'000);
  EXPECT_EQ(takes(120'000, {{100'000, 50'000}}), kAlone + 30'000) << "it began in it";
  EXPECT_EQ(takes(150'000, {{100'000, 50'000}}), kAlone) << "it is over";
  EXPECT_EQ(takes(95'000, {{100'000, 50'000}, {155'000, 20'000}}), kAlone + 70'000)
      << "the second comes before the rest is done";
}

TEST(ServingWorldTest, AClosedLoopLetsInSoManyAndItsRateIsThatWhileItWasFull) {
  const auto world = Made(Sentence, 1);
  // Four long ones to begin with, then each a word and a head: 22 us.
  std::vector<Arrival> arrivals(4, Arrival{0, 9});
  arrivals.resize(44);
  const WorldReport report = world->RunClosed(arrivals, 4);
  EXPECT_NEAR(report.requests_per_s, 1e9 / (2 * (kTaskNs + kNodeNs)), 1)
      << "not of the first tenth";
  for (size_t i = 12; i < arrivals.size(); ++i) {
    EXPECT_LE(report.answers[i].latency_ns(), 4 * 2 * (kTaskNs + kNodeNs)) << i;
  }
}

TEST(ServingWorldTest, WhatDoesNotFitIsCountedAsFailedAndIsNoLatency) {
  WorldOptions options;
  std::vector<WorldLane> lanes;
  lanes.push_back({MakeModel(ModelId(1)), Linear(8), Sentence});
  options.row_budget_bytes = 1 << 16;
  ServingWorld world(options, std::move(lanes));
  const std::vector<Arrival> arrivals = {{0, 0}, {1'000'000, 5'000}, {2'000'000, 0}};
  const WorldReport report = world.Run(arrivals);
  EXPECT_EQ(report.failed, 1);
  EXPECT_TRUE(report.answers[0].ok);
  EXPECT_FALSE(report.answers[1].ok);
  EXPECT_EQ(report.p99_ns, 2 * (kTaskNs + kNodeNs));
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

// What a scheduler is told decides who waits: each of these alone changes it.
TEST(ServingWorldTest, EveryOptionOfTheSchedulerAndItsDevicesIsInForce) {
  const auto latencies = [](const WorldOptions& options) {
    std::vector<WorldLane> lanes;
    auto model = MakeModel(ModelId(1));
    model->priority_levels = 3;
    lanes.push_back({std::move(model), Linear(4), Sentence});
    WorldOptions given = options;
    given.row_budget_bytes = 16 << 20;
    ServingWorld world(given, std::move(lanes));
    std::vector<Arrival> arrivals = PoissonArrivals(12'000, 600, 20, /*seed=*/13);
    for (size_t i = 0; i < arrivals.size(); ++i) arrivals[i].priority = 1 + static_cast<int>(i % 3);
    return Latencies(world.Run(arrivals));
  };
  const std::vector<int64_t> usual = latencies({});
  EXPECT_EQ(latencies({}), usual);
  EXPECT_NE(latencies({.max_wait_tasks = 1}), usual);
  EXPECT_NE(latencies({.chain_turn = 1}), usual);
  EXPECT_NE(latencies({.priority_ageing = 1}), usual);
  const std::vector<int64_t> by_itself = latencies({.runs_by_itself = true});
  EXPECT_NE(latencies({.runs_by_itself = true, .tasks_a_launch = 4, .launch_ns = 5'000}),
            latencies({.runs_by_itself = true, .launch_ns = 5'000}));
  EXPECT_NE(latencies({.runs_by_itself = true, .launch_ns = 5'000}), by_itself);
  EXPECT_NE(latencies({.runs_by_itself = true, .max_tasks_in_flight = 4}), by_itself);
  EXPECT_NE(
      latencies({.runs_by_itself = true, .max_tasks_in_flight = 4}),
      latencies({.runs_by_itself = true, .max_tasks_in_flight = 4, .few_tasks_in_flight = 1}));
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

TEST(TaskCostsTest, BeyondMeasuredSizesTheyNeverFall) {
  const TaskCosts costs = *TaskCosts::Of({{8, {{1, 100}, {2, 90}}}});
  EXPECT_EQ(costs.Ns(CellTypeId(0), 2), 90);
  EXPECT_EQ(costs.Ns(CellTypeId(0), 8), 90);
}

TEST(TaskCostsTest, WhatWasMeasuredInOneMemoryIsItsOwnAndABatchIsWhatItSays) {
  auto model = MakeModel(ModelId(1));
  model->types[2].min_batch = 6;
  std::vector<CellTypeCalibration> measured;
  for (const int memory : {0, 1}) {
    for (const CellType& type : model->types) {
      CellTypeCalibration& one = measured.emplace_back();
      one.type = type.id;
      one.memory = memory;
      one.max_batch = memory == 0 ? 4 : 16;
      one.peak_batch = memory == 0 ? 6 : 24;
      one.points = {{1, memory == 0 ? 100 : 900}};
    }
  }
  const TaskCosts costs = *TaskCosts::Of(measured, 0, *model);
  EXPECT_EQ(costs.Ns(kLeaf, 1), 100);
  EXPECT_EQ(costs.types()[1].peak_batch, 6);
  const auto with = WithBatchesOf(costs, *model);
  EXPECT_EQ(with->types[2].max_batch, 4);
  EXPECT_EQ(with->types[2].peak_batch, 6);
  EXPECT_EQ(with->types[2].min_batch, 4) << "no more than the most";
  EXPECT_EQ(with->types[1].min_batch, 1);
}

TEST(TaskCostsTest, WhatCannotBeCostsIsRefused) {
  EXPECT_FALSE(TaskCosts::Of({{8, {}}}).ok());
  EXPECT_FALSE(TaskCosts::Of({{0, {{1, 50}}}}).ok());
  EXPECT_TRUE(TaskCosts::Of({{4096, {{1, 50}}}}).ok());
  EXPECT_EQ(std::string(TaskCosts::Of({{4097, {{1, 50}}}}).status().message()),
            "costs of cell type 0: max_batch is 4097, allowed are 1 to 4096");
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
  int sorted = 0;  // turns that came in order
  for (size_t turn = 0; turn + 7 <= arrivals.size(); turn += 7) {
    sorted += std::is_sorted(arrivals.begin() + static_cast<std::ptrdiff_t>(turn),
                             arrivals.begin() + static_cast<std::ptrdiff_t>(turn) + 7,
                             [](const auto& a, const auto& b) { return a.shape < b.shape; });
  }
  EXPECT_LT(sorted, 20) << "of 14,285, one in 5,040";
  EXPECT_NE(PoissonArrivals(1'000, 1, 7, kSeed + 1)[0].at_ns, arrivals[0].at_ns);
  EXPECT_EQ(PoissonArrivals(1'000, 1, 7, kSeed, /*lane=*/2)[0].lane, 2);
  const std::vector<Arrival> faster = AtAnotherRate(arrivals, 2);
  EXPECT_NEAR(static_cast<double>(faster.back().at_ns), static_cast<double>(before) / 2, 1);
  EXPECT_EQ(faster.back().shape, arrivals.back().shape);
}

}  // namespace
}  // namespace cellbatch
