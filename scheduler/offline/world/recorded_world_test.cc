// Claims about predicting from a record: where nothing disturbed the server, the same policy is predicted to the nanosecond,
// and another policy and another rate as if they had been served; stalls happen again when they happened.
#include "scheduler/offline/world/recorded_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/policy/make_rules.h"
#include "scheduler/record/memory_recorder.h"
#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using scheduler_testing::MakeModel;

// 20 + b microseconds, with room for batches of 16.
constexpr SimCost kCost = {.task_ns = 20'000, .node_ns = 1'000};
constexpr uint64_t kSeed = 8;

// A server of trees and sentences in virtual time, and its record.
class Served {
 public:
  explicit Served(PolicyKind policy, int32_t priority_levels = 1, bool beside_a_gpu = false)
      : recorder_(size_t{1} << 22) {
    model_->priority_levels = priority_levels;
    model_->devices.gpu = !beside_a_gpu;
    scheduler_testing::WorldOptions options;
    options.cost = kCost;
    if (beside_a_gpu) {
      options.devices = 2;
      options.kinds = {DeviceKind::kCpu, DeviceKind::kGpu};
    }
    options.calibrate = true;
    options.fingerprints = false;
    options.scheduler.recorder = &recorder_;
    options.scheduler.row_budget_bytes = 4 << 20;
    options.scheduler.batch_limit = 64;
    world_ = std::make_unique<scheduler_testing::World>(options);
    PolicySpec spec;
    spec.kind = policy;
    world_->Add(model_, *MakeRules(spec, JoinSpec(), model_->types.size()));
  }

  // Arrival i is a tree of 2 + shape leaves, or for an odd shape a sentence of as many words.
  void Serve(const std::vector<Arrival>& arrivals) {
    const int64_t begin_ns = world_->time().now_ns();
    for (const Arrival& arrival : arrivals) {
      RunTo(begin_ns + arrival.at_ns);
      auto request = arrival.shape % 2 == 0 ? world_->Tree(model_, 2 + arrival.shape)
                                            : world_->Sentence(model_, 2 + arrival.shape);
      request->times.received = request->times.submitted = world_->time().now_ns();
      request->priority = arrival.priority;
      world_->Submit(std::move(request), 1);
    }
    world_->Run();
    world_->Finished();
  }
  scheduler_testing::World& world() { return *world_; }
  const RecordedRun& run() { return recorder_.run(); }

 private:
  void RunTo(int64_t until) {
    for (;;) {
      while (world_->scheduler().StepWorker(0) | world_->scheduler().StepManager()) {
      }
      world_->Finished();
      const auto next = world_->device(0).next_event_ns();
      if (!next || *next > until) break;
      world_->time().AdvanceTo(*next);
    }
    world_->time().AdvanceTo(until);
  }

  MemoryRecorder recorder_;
  std::shared_ptr<Model> model_ = MakeModel(ModelId(1), {16, 16, 16, 16, 16});
  std::unique_ptr<scheduler_testing::World> world_;
};

std::vector<Arrival> Comers(double per_second) {
  return PoissonArrivals(per_second, 800, 12, kSeed);
}

PolicySpec SpecOf(PolicyKind kind) {
  PolicySpec spec;
  spec.kind = kind;
  return spec;
}

std::vector<int64_t> Latencies(const WorldReport& report) {
  std::vector<int64_t> latencies;
  for (const WorldAnswer& answer : report.answers) latencies.push_back(answer.latency_ns());
  return latencies;
}

RecordedWorld WorldOf(Served& served) {
  absl::StatusOr<RecordedWorld> world = WorldOfRecord(served.run(), {});
  EXPECT_TRUE(world.ok()) << world.status();
  return *std::move(world);
}

TEST(RecordedWorldTest, DevicesThatTheModelDoesNotLiveOnAreNotThere) {
  Served served(PolicyKind::kCellular, 1, /*beside_a_gpu=*/true);
  served.Serve(Comers(4'000));
  const RecordedWorld world = WorldOf(served);
  EXPECT_EQ(world.options.devices, 1);
  EXPECT_EQ(WhatIf(world, world.policy, 1, world.options.devices).answers.size(), 800u);
}

TEST(RecordedWorldTest, AnUndisturbedServersLatenciesArePredictedToTheNanosecond) {
  Served served(PolicyKind::kCellular);
  served.Serve(Comers(4'000));
  const RecordedWorld world = WorldOf(served);
  EXPECT_EQ(world.policy.kind, PolicyKind::kCellular);
  EXPECT_EQ(world.arrivals.size(), 800u);
  EXPECT_EQ(world.left_out, 0u);
  EXPECT_EQ(world.task_overhead_ns, 0);
  EXPECT_TRUE(world.options.stalls.empty());
  const WorldReport predicted = WhatIf(world, world.policy, 1, 1);
  EXPECT_EQ(Latencies(predicted), world.served_ns) << "seed " << kSeed;
  EXPECT_EQ(predicted.p99_ns, QuantileOf(world.served_ns, 0.99));
}

TEST(RecordedWorldTest, AnotherPolicyIsPredictedAsItWouldHaveBeenServed) {
  Served cellular(PolicyKind::kCellular), other(PolicyKind::kLbGreedy);
  cellular.Serve(Comers(5'000));
  other.Serve(Comers(5'000));
  const std::vector<int64_t> served = WorldOf(other).served_ns;
  const RecordedWorld world = WorldOf(cellular);
  ASSERT_NE(world.served_ns, served) << "the two decide alike: nothing is shown";
  EXPECT_EQ(Latencies(WhatIf(world, SpecOf(PolicyKind::kLbGreedy), 1, 1)), served);
}

TEST(RecordedWorldTest, AnotherRateIsPredictedAsItWouldHaveBeenServed) {
  Served slow(PolicyKind::kCellular), fast(PolicyKind::kCellular);
  slow.Serve(Comers(2'000));
  fast.Serve(AtAnotherRate(Comers(2'000), 2));
  const int64_t p99_ns = QuantileOf(WorldOf(fast).served_ns, 0.99);
  const WorldReport predicted = WhatIf(WorldOf(slow), SpecOf(PolicyKind::kCellular), 2, 1);
  EXPECT_NEAR(static_cast<double>(predicted.p99_ns), static_cast<double>(p99_ns),
              0.02 * static_cast<double>(p99_ns));
  EXPECT_GT(p99_ns, QuantileOf(WorldOf(slow).served_ns, 0.99));
}

TEST(RecordedWorldTest, WhoWasUrgentIsUrgentInTheWorld) {
  const auto latencies = [](const std::vector<Arrival>& arrivals) {
    Served served(PolicyKind::kCellular, /*priority_levels=*/3);
    served.Serve(arrivals);
    const RecordedWorld world = WorldOf(served);
    EXPECT_EQ(Latencies(WhatIf(world, world.policy, 1, 1)), world.served_ns) << "seed " << kSeed;
    return world.served_ns;
  };
  const std::vector<Arrival> alike = Comers(8'000);
  std::vector<Arrival> mixed = alike;
  for (size_t i = 0; i < mixed.size(); ++i) mixed[i].priority = 1 + static_cast<int32_t>(i % 3);
  EXPECT_NE(latencies(mixed), latencies(alike)) << "priorities decide nothing: nothing is shown";
}

TEST(RecordedWorldTest, TwoDevicesAreFasterThanOne) {
  Served served(PolicyKind::kCellular);
  served.Serve(Comers(6'000));
  const RecordedWorld world = WorldOf(served);
  EXPECT_LT(WhatIf(world, world.policy, 1, 2).p99_ns, WhatIf(world, world.policy, 1, 1).p99_ns);
}

TEST(RecordedWorldTest, AStallHappensAgainWhenItHappenedAndDoesNotMakeTasksDearer) {
  Served calm(PolicyKind::kCellular), stalled(PolicyKind::kCellular);
  const std::vector<Arrival> arrivals = Comers(3'000);
  calm.Serve(arrivals);
  const std::vector<Arrival> before(arrivals.begin(), arrivals.begin() + 400);
  std::vector<Arrival> after(arrivals.begin() + 400, arrivals.end());
  for (Arrival& arrival : after) arrival.at_ns -= arrivals[399].at_ns;
  stalled.Serve(before);
  stalled.world().device(0).Hang(30'000'000);  // the next task ends so much later
  stalled.Serve(after);
  const RecordedWorld world = WorldOf(stalled);
  ASSERT_EQ(world.options.stalls.size(), 1u);
  EXPECT_NEAR(static_cast<double>(world.options.stalls[0].ns), 30e6, 0.1e6);
  EXPECT_EQ(world.costs.Ns(CellTypeId(0), 1), WorldOf(calm).costs.Ns(CellTypeId(0), 1));
  const WorldReport predicted = WhatIf(world, world.policy, 1, 1);
  const int64_t served_p99 = QuantileOf(world.served_ns, 0.99);
  EXPECT_GT(served_p99, 2 * QuantileOf(WorldOf(calm).served_ns, 0.99));
  EXPECT_NEAR(static_cast<double>(predicted.p99_ns), static_cast<double>(served_p99),
              0.05 * static_cast<double>(served_p99));
}

// The second model is loaded where the first one was, once that has gone. Its tasks are its own.
TEST(RecordedWorldTest, AModelThatTookTheLaneOfAnotherIsAnother) {
  Served served(PolicyKind::kCellular);
  served.Serve(Comers(4'000));
  const RecordedWorld alone = WorldOf(served);
  scheduler_testing::World& world = served.world();
  ASSERT_TRUE(world.Remove(ModelId(1)).ok());
  const auto other = MakeModel(ModelId(2), {16, 16, 16, 16, 16});
  world.Add(other, *MakeRules(SpecOf(PolicyKind::kCellular), JoinSpec(), other->types.size()));
  ASSERT_EQ(served.run().lanes.at(1).index, served.run().lanes.at(2).index);
  world.device(0).Hang(30'000'000);
  auto request = world.Tree(other, 4);
  request->times.received = request->times.submitted = world.time().now_ns();
  world.Submit(std::move(request), 1);
  world.Run();
  world.Finished();
  const auto first = WorldOfRecord(served.run(), {.model = "model1"});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->options.stalls.empty());
  EXPECT_EQ(first->costs.types().size(), alone.costs.types().size());
  for (int32_t nodes : {1, 5, 16}) {
    EXPECT_EQ(first->costs.Ns(CellTypeId(0), nodes), alone.costs.Ns(CellTypeId(0), nodes)) << nodes;
  }
  const auto second = WorldOfRecord(served.run(), {.model = "model2"});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->arrivals.size(), 1u);
}

TEST(RecordedWorldTest, OfAModelThatWasLoadedAgainItIsTheLatestThatWasAskedAnything) {
  Served served(PolicyKind::kCellular);
  served.Serve(Comers(4'000));
  const size_t arrivals = WorldOf(served).arrivals.size();
  RecordedRun again = served.run();
  RecordedLane unasked = again.lanes.at(1);
  unasked.serial = 7;
  again.lanes.emplace(7, unasked);
  const auto world = WorldOfRecord(again, {.model = "model1"});
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ(world->arrivals.size(), arrivals);
  EXPECT_EQ(world->of_other_lanes, 0u);

  RecordedLane earlier = again.lanes.at(1);
  earlier.serial = 0;
  again.lanes.emplace(0, earlier);
  again.requests.front().serial = 0;
  const auto later = WorldOfRecord(again, {.model = "model1"});
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ(later->arrivals.size(), arrivals - 1);
  EXPECT_EQ(later->of_other_lanes, 1u) << "who is left out is counted";
}

TEST(RecordedWorldTest, WhatARecordDoesNotHaveIsSaid) {
  Served served(PolicyKind::kCellular);
  served.Serve(Comers(4'000));
  const auto message = [&](const RecordedPart& part) {
    return std::string(WorldOfRecord(served.run(), part).status().message());
  };
  EXPECT_EQ(message({.model = "other"}), "the record has no model \"other\"");
  EXPECT_EQ(message({.model = "", .from_ns = 0, .to_ns = 1}),
            "the record has no answered request of \"model1\" there");
  RecordedRun changed = served.run();
  EXPECT_EQ(WorldOfRecord(changed, {})->policies_taken, 0u);
  changed.lanes.at(1).taken[1] = {.made = true, .spec = SpecOf(PolicyKind::kDepth)};
  EXPECT_EQ(WorldOfRecord(changed, {})->policies_taken, 1u);
  RecordedRun without = served.run();
  without.tape.clear();
  EXPECT_EQ(std::string(WorldOfRecord(without, {}).status().message()),
            "the record has no warm-up of cell type \"chain\"");
}

}  // namespace
}  // namespace cellbatch
