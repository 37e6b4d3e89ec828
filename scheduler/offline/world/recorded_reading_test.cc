// Claims about what is read off a record, each from a record that was written by hand: what tasks took alone and served, what
// the scheduler took between them, who woke it, what stalled, which requests are played and how fast they were served.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/offline/world/recorded_world.h"
#include "scheduler/record/schedule_tape.h"
#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using scheduler_testing::kDecoder;
using scheduler_testing::kLeaf;
using scheduler_testing::kPair;
using scheduler_testing::MakeModel;

constexpr int64_t kMs = 1'000'000, kUs = 1'000;
constexpr int64_t kOneNs = 20 * kUs, kFullNs = 35 * kUs;  // of batches of 1 and 16

// A server's record: one device on the scheduler's thread, one model, whose warm-up lies before the first 100 ms.
class ByHand {
 public:
  ByHand() {
    run_.setup.max_tasks_in_flight = 1;
    run_.setup.max_wait_tasks = 20;
    run_.setup.chain_turn = 64;
    run_.setup.memory_of = {0};
    AddLane(1, 0, MakeModel(ModelId(1), {16, 16, 16, 16, 16}));
    for (const int type : {0, 1, 2, 3, 4}) {
      Task(type, 1, kOneNs);
      Task(type, 16, kFullNs);
    }
  }
  void AddLane(uint32_t serial, int index, std::shared_ptr<const Model> model) {
    RecordedLane& lane = run_.lanes[serial];
    lane.index = index;
    lane.serial = serial;
    lane.model = std::move(model);
    lane.policy.made = true;
    Put(static_cast<uint64_t>(TapeOp::kControl), {serial});
  }
  // As soon as the one before is done, or then.
  void Task(int type, int nodes, int64_t ns, int64_t at_ns = -1) {
    if (at_ns < 0) at_ns = end_ns_;
    end_ns_ = at_ns + ns;
    Put(static_cast<uint64_t>(TapeOp::kSubmitted) | static_cast<uint64_t>(type) << 24 |
            static_cast<uint64_t>(nodes) << 40,
        {0});
    Put(static_cast<uint64_t>(TapeOp::kFinished),
        {static_cast<uint64_t>(at_ns), static_cast<uint64_t>(end_ns_)});
  }
  // One leaf, answered when its last task ended.
  RecordedRequest& Request(int64_t received_ns, int64_t submitted_ns, int64_t end_ns) {
    RecordedRequest& r = run_.requests.emplace_back();
    r.id = run_.requests.size();
    r.serial = 1;
    r.received_ns = received_ns;
    r.submitted_ns = submitted_ns;
    PieceShape& piece = r.shape.pieces.emplace_back();
    piece.subgraphs = {{.table = 0}, {.type = kLeaf.value(), .num_links = 1, .num_returns = 1}};
    piece.links = {{.from = 0}};
    piece.returns = {{}};
    r.ended = true;
    r.end.code = absl::StatusCode::kOk;
    r.end.last_task_end_ns = end_ns;
    return r;
  }
  RecordedRun& run() { return run_; }
  RecordedWorld World(const RecordedPart& part = {}) const {
    absl::StatusOr<RecordedWorld> world = WorldOfRecord(run_, part);
    EXPECT_TRUE(world.ok()) << world.status();
    return world.ok() ? *std::move(world) : RecordedWorld();
  }
  std::string Refused(const RecordedPart& part = {}) const {
    return std::string(WorldOfRecord(run_, part).status().message());
  }

 private:
  void Put(uint64_t word, std::vector<uint64_t> operands) {
    run_.tape.push_back(word);
    run_.tape.insert(run_.tape.end(), operands.begin(), operands.end());
  }
  RecordedRun run_;
  int64_t end_ns_ = 0;
};

TEST(RecordedReadingTest, AloneIsTheLeastOfEachSizeInTheWarmUpAndNoneIsSlowerThanALargerOne) {
  ByHand record;
  record.Task(kPair.value(), 1, 18 * kUs);
  record.Task(kPair.value(), 1, 25 * kUs);
  record.Task(kPair.value(), 4, 50 * kUs);
  record.Request(100 * kMs, 100 * kMs, 101 * kMs);
  RecordedWorld world = record.World();
  EXPECT_EQ(world.costs.Ns(kPair, 1), 18 * kUs);
  EXPECT_EQ(world.costs.Ns(kPair, 4), kFullNs);
  EXPECT_EQ(world.costs.Ns(kPair, 16), kFullNs);
  // Half as long, served: half of each size, and not the least of one.
  record.Task(kPair.value(), 1, 9 * kUs, 100 * kMs);
  world = record.World();
  EXPECT_EQ(world.costs.Ns(kPair, 1), 9 * kUs);
  EXPECT_EQ(world.costs.Ns(kPair, 16), kFullNs / 2);
  EXPECT_EQ(world.costs.Ns(kLeaf, 16), kFullNs);
}

TEST(RecordedReadingTest, WhatLiesBetweenTasksIsOverheadWhereSomebodyIsOutAndAStallWhereItIsLong) {
  ByHand record;
  record.Request(100 * kMs, 100 * kMs, 110 * kMs);
  record.Task(kLeaf.value(), 1, kOneNs, 100 * kMs);
  record.Task(kLeaf.value(), 1, kOneNs, 100 * kMs + kOneNs + 4 * kUs);
  record.Task(kLeaf.value(), 1, kOneNs, 100 * kMs + 2 * kOneNs + 4 * kUs + 8 * kUs);
  const int64_t end_ns = 100 * kMs + 3 * kOneNs + 12 * kUs;
  record.Task(kLeaf.value(), 1, kOneNs, end_ns + 3 * kMs);
  const RecordedWorld world = record.World();
  EXPECT_EQ(world.task_overhead_ns, 6 * kUs);
  ASSERT_EQ(world.options.stalls.size(), 1u);
  EXPECT_EQ(world.options.stalls[0].at_ns, end_ns - 100 * kMs) << "from the first arrival on";
  EXPECT_EQ(world.options.stalls[0].ns, 3 * kMs);
  EXPECT_EQ(world.costs.Ns(kLeaf, 1), kOneNs + 6 * kUs);
  EXPECT_EQ(world.costs.Ns(kPair, 16), kFullNs + 6 * kUs) << "of each type's tasks";
  EXPECT_DOUBLE_EQ(world.options.pace[1][0].times, 1) << "overheads are in the costs";
}

// Who comes long after the last task finds it asleep; who comes while it still looks around does not.
TEST(RecordedReadingTest, WakingIsTheMedianOfThoseWhoFoundItAsleepWithoutATasksOverhead) {
  ByHand record;
  const auto alone = [&](int64_t at_ns, int64_t start_ns) {
    record.Request(at_ns, at_ns, start_ns + 2 * kOneNs + 4 * kUs);
    record.Task(kLeaf.value(), 1, kOneNs, start_ns);
    record.Task(kLeaf.value(), 1, kOneNs, start_ns + kOneNs + 4 * kUs);
  };
  alone(100 * kMs, 100 * kMs);
  alone(200 * kMs, 200 * kMs + 30 * kUs);
  alone(300 * kMs, 300 * kMs + 34 * kUs);
  alone(400 * kMs, 400 * kMs + 90 * kUs);
  int64_t end_ns = 400 * kMs + 90 * kUs + 2 * kOneNs + 4 * kUs;
  for (int i = 0; i < 5; ++i) {  // it spins
    alone(end_ns + 40 * kUs, end_ns + 41 * kUs);
    end_ns += 41 * kUs + 2 * kOneNs + 4 * kUs;
  }
  const RecordedWorld world = record.World();
  EXPECT_EQ(world.task_overhead_ns, 4 * kUs);
  EXPECT_EQ(world.options.wake_ns, 30 * kUs);
  ByHand fed = record;  // its device is fed ahead of time: gaps say nothing
  fed.run().setup.max_tasks_in_flight = 2;
  EXPECT_EQ(fed.World().options.wake_ns, 0);
  EXPECT_EQ(fed.World().task_overhead_ns, 0);
  EXPECT_TRUE(fed.World().options.runs_by_itself);
  EXPECT_FALSE(world.options.runs_by_itself);
}

TEST(RecordedReadingTest, ATaskIsStalledThatTakesAMillisecondMoreAndTwiceAsLongAsItsLike) {
  ByHand record;
  record.Task(kPair.value(), 2, 20 * kMs,
              0);  // no size above takes less: the larger one is as long
  record.Task(kPair.value(), 16, 20 * kMs);
  record.Request(100 * kMs, 100 * kMs, 400 * kMs);
  int64_t at_ns = 100 * kMs;
  const auto task = [&](CellTypeId type, int nodes, int64_t ns) {
    record.Task(type.value(), nodes, ns, at_ns);
    at_ns += ns;
  };
  for (int i = 0; i < 9; ++i) task(kLeaf, 1, kOneNs);
  task(kLeaf, 1, 5 * kMs);
  const int64_t stalled_ns = at_ns - 5 * kMs;
  task(kLeaf, 1, 900 * kUs);  // long, and no millisecond
  RecordedWorld world = record.World();
  ASSERT_EQ(world.options.stalls.size(), 1u);
  EXPECT_EQ(world.options.stalls[0].at_ns, stalled_ns - 100 * kMs);
  EXPECT_EQ(world.options.stalls[0].ns, 5 * kMs - kOneNs);
  // What a stall took is no cost: ten of eleven, and the slow one.
  EXPECT_EQ(world.costs.Ns(kLeaf, 1), (9 * kOneNs + 900 * kUs) / 10);
}

TEST(RecordedReadingTest, AMillisecondIsNoStallOfATaskThatTakesMany) {
  ByHand record;
  record.run().tape.clear();
  record.AddLane(1, 0, record.run().lanes.at(1).model);
  for (const int type : {0, 1, 2, 3, 4}) {
    record.Task(type, 1, 10 * kMs);
    record.Task(type, 16, 10 * kMs);
  }
  record.Request(200 * kMs, 200 * kMs, 400 * kMs);
  record.Task(1, 1, 10 * kMs, 200 * kMs);
  record.Task(1, 1, 12 * kMs);
  record.Task(1, 1, 10 * kMs);
  EXPECT_TRUE(record.World().options.stalls.empty());
}

TEST(RecordedReadingTest, StallsOfTasksAndBetweenThemComeInTheirOrder) {
  ByHand record;
  record.Request(100 * kMs, 100 * kMs, 400 * kMs);
  for (int i = 0; i < 5; ++i) record.Task(kLeaf.value(), 1, kOneNs, 100 * kMs + i * kOneNs);
  record.Task(kLeaf.value(), 1, 6 * kMs);            // of a task, found second
  record.Task(kLeaf.value(), 1, kOneNs, 120 * kMs);  // between two, found first
  const std::vector<WorldStall> stalls = record.World().options.stalls;
  ASSERT_EQ(stalls.size(), 2u);
  EXPECT_LT(stalls[0].at_ns, stalls[1].at_ns);
  EXPECT_EQ(stalls[0].ns, 6 * kMs - kOneNs);
}

// By size where twenty of it ran, else as all of the type; a smaller one never takes longer than a larger one.
TEST(RecordedReadingTest, ServedCostsAreThoseOfTheirSizeWhereEnoughRan) {
  ByHand record;
  record.Request(100 * kMs, 100 * kMs, 400 * kMs);
  record.Task(kLeaf.value(), 16, 2 * kFullNs, 100 * kMs);
  for (int i = 1; i < 20; ++i) record.Task(kLeaf.value(), 16, 2 * kFullNs);
  for (int i = 0; i < 19; ++i) record.Task(kLeaf.value(), 1, 3 * kOneNs);
  const double all = (20.0 * 2 * kFullNs + 19.0 * 3 * kOneNs) / (20.0 * kFullNs + 19.0 * kOneNs);
  RecordedWorld world = record.World();
  EXPECT_EQ(world.costs.Ns(kLeaf, 16), 2 * kFullNs);
  EXPECT_NEAR(static_cast<double>(world.costs.Ns(kLeaf, 1)), all * kOneNs, 1);
  record.Task(kLeaf.value(), 1, 3 * kOneNs);
  EXPECT_EQ(record.World().costs.Ns(kLeaf, 1), 3 * kOneNs) << "twenty are enough";
  for (int i = 0; i < 20; ++i) record.Task(kLeaf.value(), 1, 7 * kOneNs);
  world = record.World();  // 100 us and 70: of forty and twenty tasks, 90 in the mean
  EXPECT_EQ(world.costs.Ns(kLeaf, 1), 90 * kUs);
  EXPECT_EQ(world.costs.Ns(kLeaf, 16), 90 * kUs);
}

TEST(RecordedReadingTest, APaceIsOfItsWindowAndOfItsTypeWhereEnoughOfItRan) {
  ByHand record;
  record.Request(100 * kMs, 100 * kMs, 400 * kMs);
  record.Task(kLeaf.value(), 1, kOneNs, 100 * kMs);
  for (int i = 1; i < 20; ++i) record.Task(kLeaf.value(), 1, kOneNs);
  record.Task(kLeaf.value(), 1, 3 * kOneNs, 125 * kMs);
  for (int i = 1; i < 20; ++i) record.Task(kLeaf.value(), 1, 3 * kOneNs);
  record.Task(kPair.value(), 1, kOneNs);
  const RecordedWorld world = record.World();
  ASSERT_EQ(world.costs.Ns(kLeaf, 1), 2 * kOneNs);
  const auto& leaf = world.options.pace[1];
  const auto& pair = world.options.pace[2];
  ASSERT_EQ(leaf.size(), 2u);
  EXPECT_EQ(leaf[0].at_ns, 0);
  EXPECT_EQ(leaf[1].at_ns, 20 * kMs);
  EXPECT_DOUBLE_EQ(leaf[0].times, 0.5);
  EXPECT_DOUBLE_EQ(leaf[1].times, 1.5);
  EXPECT_DOUBLE_EQ(pair[1].times, 61.0 / 41) << "one is not enough: as all";
}

TEST(RecordedReadingTest, WhoIsPlayedCameAsSubmittedAndIsServedFromItsFirstByte) {
  ByHand record;
  record.Request(199 * kMs, 200 * kMs, 203 * kMs);
  record.Request(97 * kMs, 100 * kMs, 101 * kMs);
  record.Request(298 * kMs, 300 * kMs, 300 * kMs + kOneNs);
  const RecordedWorld world = record.World();
  ASSERT_EQ(world.arrivals.size(), 3u);
  EXPECT_EQ(world.arrivals[0].at_ns, 0);
  EXPECT_EQ(world.arrivals[1].at_ns, 100 * kMs);
  EXPECT_EQ(world.served_ns, (std::vector<int64_t>{4 * kMs, 4 * kMs, 2 * kMs + kOneNs}));
  EXPECT_EQ(world.input_ns, 2 * kMs) << "the median of 1, 2 and 3";
  const WorldReport predicted = WhatIf(world, world.policy, 1, 1);
  for (const WorldAnswer& answer : predicted.answers) {
    EXPECT_EQ(answer.latency_ns(), 2 * kMs + kOneNs);
  }
  EXPECT_EQ(predicted.p50_ns, 2 * kMs + kOneNs);
  EXPECT_DOUBLE_EQ(predicted.mean_ns, 2 * kMs + kOneNs);
}

TEST(RecordedReadingTest, WhoFailedGrewOrNeverEndedIsLeftOutAndCounted) {
  ByHand record;
  for (int i = 0; i < 6; ++i) record.Request(100 * kMs, 100 * kMs, 101 * kMs);
  record.run().requests[1].end.code = absl::StatusCode::kCancelled;
  record.run().requests[2].shape.pieces[0].grows = true;
  record.run().requests[3].ended = false;
  record.run().requests[4].shape.pieces[0].subgraphs[1].type = 77;
  auto& pieces = record.run().requests[5].shape.pieces;
  pieces.push_back(pieces[0]);
  const RecordedWorld world = record.World();
  EXPECT_EQ(world.arrivals.size(), 1u);
  EXPECT_EQ(world.left_out, 5u);
}

// Two decoders of up to 20 words, of which one stopped at its third and the other at its fifth; asked for was all that the one
// would have said, and of the other the tenth.
TEST(RecordedReadingTest, ChainsAreAsLongAsTheyRan) {
  ByHand record;
  RecordedRequest& request = record.Request(100 * kMs, 100 * kMs, 101 * kMs);
  PieceShape& piece = request.shape.pieces[0];
  const SubgraphShape decoder = {.type = kDecoder.value(),
                                 .length = 20,
                                 .num_links = 1,
                                 .num_returns = 1,
                                 .stop_column = 1,
                                 .stop_value = 2};
  piece.subgraphs.push_back(decoder);
  piece.subgraphs.push_back(decoder);
  piece.links.insert(piece.links.end(), 2, {.from = 1});
  piece.returns.insert(piece.returns.end(), 2, {.column = 1, .count = 20});
  piece.returns.back() = {.column = 1, .first = 9, .count = 1};
  request.end.stopped_at = {2, 4};
  const RecordedWorld world = record.World();
  ASSERT_EQ(world.arrivals.size(), 1u) << "left out: " << world.left_out;
  const WorldReport report = WhatIf(world, world.policy, 1, 1);
  EXPECT_EQ(report.answers[0].nodes, 1 + 3 + 5);
}

TEST(RecordedReadingTest, APartIsOfTheRequestsAndTasksOfItsTime) {
  ByHand record;
  for (const int64_t at_ms : {100, 200, 300}) {
    record.Request(at_ms * kMs, at_ms * kMs, at_ms * kMs + kOneNs);
    record.Task(kLeaf.value(), 1, (at_ms == 200 ? 2 : 5) * kOneNs, at_ms * kMs);
  }
  const RecordedWorld part = record.World({.model = "", .from_ns = 200 * kMs, .to_ns = 300 * kMs});
  EXPECT_EQ(part.arrivals.size(), 1u);
  EXPECT_EQ(part.costs.Ns(kLeaf, 1), 2 * kOneNs);
  EXPECT_EQ(record.World().costs.Ns(kLeaf, 1), 4 * kOneNs);
}

TEST(RecordedReadingTest, WhatWasDecidedByCodeOrLivedNowhereIsSaid) {
  ByHand record;
  record.Request(100 * kMs, 100 * kMs, 101 * kMs);
  RecordedLane& lane = record.run().lanes.at(1);
  lane.policy.made = false;
  EXPECT_EQ(record.Refused(), "what decided for \"model1\" is in no record");
  lane.policy.made = true;
  lane.join_made = false;
  EXPECT_EQ(record.Refused(), "what decided for \"model1\" is in no record");
  lane.join_made = true;
  lane.lives_in = 2;
  EXPECT_EQ(record.Refused(), "the record's lane 1 lives on none of its 1 devices");
  lane.lives_in = 1;
  EXPECT_EQ(record.World().of_other_lanes, 0u);
  record.AddLane(2, 1, MakeModel(ModelId(2)));
  EXPECT_EQ(record.Refused(), "the record has \"model1\" and \"model2\": say which");
  record.Request(150 * kMs, 150 * kMs, 151 * kMs).serial = 2;
  EXPECT_EQ(record.World({.model = "model1"}).of_other_lanes, 0u) << "it is no version of it";
}

TEST(RecordedReadingTest, WhatTheServersSchedulerWasToldTheWorldIsTold) {
  ByHand record;
  record.Request(100 * kMs, 100 * kMs, 101 * kMs);
  RecordedSetup& setup = record.run().setup;
  setup.max_tasks_in_flight = 3;
  setup.few_tasks_in_flight = 2;
  setup.max_wait_tasks = 17;
  setup.chain_turn = 33;
  setup.priority_ageing = 1234;
  record.run().lanes.at(1).join.whole_graphs = 5;
  const RecordedWorld world = record.World();
  EXPECT_EQ(world.options.max_tasks_in_flight, 3);
  EXPECT_EQ(world.options.few_tasks_in_flight, 2);
  EXPECT_EQ(world.options.max_wait_tasks, 17);
  EXPECT_EQ(world.options.chain_turn, 33);
  EXPECT_EQ(world.options.priority_ageing, 1234);
  EXPECT_EQ(world.join.whole_graphs, 5u);
}

TEST(RecordedReadingTest, RequestsJoinInTheWorldAsTheyJoinedAtTheServer) {
  ByHand record;
  for (int i = 0; i < 2; ++i) record.Request(100 * kMs, 100 * kMs, 101 * kMs);
  const int64_t both_ns = kOneNs + (kFullNs - kOneNs) / 15;
  RecordedWorld world = record.World();
  EXPECT_EQ(WhatIf(world, world.policy, 1, 1).p50_ns, both_ns) << "cell by cell: in one batch";
  record.run().lanes.at(1).join.whole_graphs = 1;
  world = record.World();
  const WorldReport alone = WhatIf(world, world.policy, 1, 1);
  EXPECT_EQ(alone.p50_ns, kOneNs);
  EXPECT_EQ(alone.p99_ns, 2 * kOneNs) << "one after the other";
}

}  // namespace
}  // namespace cellbatch
