#include "scheduler/scheduler.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using namespace scheduler_testing;

TEST(SchedulerTest, ASentenceIsAnsweredWithItsTimesAndItsRowsGoBack) {
  World world;
  const auto model = MakeModel(ModelId(1));
  world.Add(model);
  const int64_t begin = world.time().now_ns();
  world.Submit(world.Sentence(model, 24), 7);
  world.Run();
  const auto done = world.TheOne();
  ASSERT_NE(done, nullptr);
  EXPECT_TRUE(done->status.ok()) << done->status;
  EXPECT_EQ(done->tag, 7u);
  EXPECT_EQ(done->nodes_executed, 25);
  EXPECT_EQ(done->times.first_task_start, begin);
  EXPECT_EQ(done->times.last_task_end, begin + 25 * 1000);
  world.ExpectClean();
}

// Its last task ends it when its word is read.
TEST(SchedulerTest, ADecodersTimesAreThoseOfItsTasks) {
  for (const int depth : {1, 3}) {
    WorldOptions options;
    options.scheduler.max_tasks_in_flight = depth;
    World world(options);
    const auto model = MakeModel(ModelId(1));
    world.Add(model);
    const int64_t begin = world.time().now_ns();
    world.Submit(world.Decoding(model, 12, /*end=*/99), 1);
    world.Run();
    const auto done = world.TheOne();
    EXPECT_TRUE(done->status.ok()) << done->status;
    EXPECT_EQ(done->times.first_task_start, begin);
    EXPECT_EQ(done->times.last_task_end, begin + done->nodes_executed * 1000) << depth;
    world.ExpectClean();
  }
}

// Algorithms reference 10.5: BatchMaker's Fig. 5. b_max 4, one step a unit; requests 1 to 4 at time
// zero with lengths 2, 3, 3, 5, then 5 to 8, the longest 7.
TEST(SchedulerTest, CellularBatchingJoinsAndLeavesAsInFigureFiveOfThePaper) {
  World world;
  const auto model = MakeModel(ModelId(1), {4});
  world.Add(model);
  const int64_t begin = world.time().now_ns();
  const auto chain = [&](int32_t length) {
    return world.Make(model, [&](CellGraph& g) {
      const SubgraphId tokens = world.Tokens(g, length);
      const SubgraphId c = g.Add(kChain, length, {{.from = tokens, .input = kIn0, .stride = 1}});
      g.Return(c, kH, {length - 1, 1}, {.tensor = g.AddTensor("OUTPUT", WireType::kFp32, {4})});
    });
  };
  const int32_t lengths[] = {2, 3, 3, 5, 7, 2, 3, 4};
  for (uint64_t i = 0; i < 8; ++i) world.Submit(chain(lengths[i]), i + 1);
  world.Run();
  std::map<uint64_t, std::pair<int64_t, int64_t>> times;  // by request: joins, leaves
  for (const auto& r : world.Finished()) {
    times[r->tag] = {(r->times.first_task_start - begin) / 1000,
                     (r->times.last_task_end - begin) / 1000};
  }
  using Times = std::pair<int64_t, int64_t>;
  EXPECT_EQ(times[1], Times(0, 2));
  EXPECT_EQ(times[2], Times(0, 3));
  EXPECT_EQ(times[3], Times(0, 3));
  EXPECT_EQ(times[4], Times(0, 5));
  EXPECT_EQ(times[5], Times(2, 9)) << "request 5 joins as soon as request 1 leaves";
  EXPECT_EQ(times[6], Times(3, 5));
  EXPECT_EQ(times[7], Times(3, 6));
  EXPECT_EQ(times[8], Times(5, 9));
  world.ExpectClean();
}

TEST(SchedulerTest, ATreeRunsOneLevelATaskWithoutWaitingForSignals) {
  World world;
  const auto model = MakeModel(ModelId(1), {8, 64, 64, 64});
  world.Add(model);
  const int64_t begin = world.time().now_ns();
  for (uint64_t i = 0; i < 4; ++i) world.Submit(world.Tree(model, 16), i);
  world.Run();
  const auto done = world.Finished();
  ASSERT_EQ(done.size(), 4u);
  for (const auto& r : done) {
    EXPECT_EQ(r->times.last_task_end - begin, 6 * 1000) << "leaves, 4 levels, head";
    EXPECT_EQ(r->nodes_executed, 32);
  }
  world.ExpectClean();
}

TEST(SchedulerTest, ARequestIsAnsweredExactlyOnceWhateverHappensToIt) {
  constexpr uint32_t kSeed = 4711;
  for (int devices : {1, 2, 3}) {
    WorldOptions options;
    options.devices = devices;
    options.scheduler.stealing = devices == 3 ? Stealing::kAlways : Stealing::kWhenIdle;
    World world(options);
    const auto model = MakeModel(ModelId(1), {4, 4, 4, 4, 4});
    world.Add(model);
    std::mt19937 random(kSeed);
    std::map<uint64_t, int> answers;
    std::vector<RequestId> ids;
    std::set<uint64_t> cancelled;
    constexpr uint64_t kRequests = 3000;
    for (uint64_t i = 0; i < kRequests; ++i) {
      const int32_t n = 1 + static_cast<int32_t>(random() % 20);
      ids.push_back(
          world.Submit(random() % 2 == 0 ? world.Sentence(model, n) : world.Tree(model, n), i));
      if (random() % 5 == 0) {
        const uint64_t which = random() % ids.size();
        world.scheduler().Notify(ids[which], News::kCancelled);
        cancelled.insert(which);
      }
      for (uint32_t steps = random() % 24; steps > 0; --steps) world.Step();
      if (i % 100 == 0) {
        const absl::Status invariants = world.scheduler().CheckInvariants();
        ASSERT_TRUE(invariants.ok()) << invariants << " seed " << kSeed << " request " << i;
      }
      for (const auto& r : world.Finished()) {
        ++answers[r->tag];
        EXPECT_TRUE(r->status.ok() || cancelled.count(r->tag) == 1) << r->status;
      }
    }
    world.Run();
    for (const auto& r : world.Finished()) ++answers[r->tag];
    EXPECT_EQ(answers.size(), kRequests) << "seed " << kSeed;
    for (const auto& [tag, count] : answers) EXPECT_EQ(count, 1) << tag;
    world.ExpectClean();
  }
}

}  // namespace
}  // namespace cellbatch
