// Claims about the manager's decisions: cancels, stops, pins, failures, fairness, memory.
#include <atomic>
#include <cstdlib>
#include <map>
#include <new>
#include <random>

#include "scheduler/policy/join_spec.h"
#include "scheduler/policy/steal_rule.h"
#include "scheduler/scheduler_test_world.h"

namespace {

std::atomic<int64_t> allocations = 0;

}  // namespace

// Counts every allocation of this test program.
[[gnu::noinline]] void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(size)) return p;
  std::abort();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace cellbatch {
namespace {

using namespace scheduler_testing;

TEST(ManagerTest, CancelledRequestKeepsItsRowsUntilItsLastTaskIsDone) {
  World world;
  const auto model = MakeModel(ModelId(1));
  world.Add(model);
  const RequestId id = world.Submit(world.Sentence(model, 10), 1);
  world.Step();  // the first task is submitted and started
  EXPECT_GT(world.RowsUsed(), 0);
  world.scheduler().Notify(id, News::kCancelled);
  world.scheduler().StepManager();
  EXPECT_GT(world.RowsUsed(), 0) << "the task that writes them is still running";
  EXPECT_TRUE(world.Finished().empty());
  world.Run();
  const auto done = world.TheOne();
  EXPECT_EQ(done->status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(done->nodes_executed, 1);
  world.ExpectClean();
}

// With one task in flight there is none when the news is looked at: nobody comes later who could say when the last ended.
TEST(ManagerTest, WhoIsCancelledBetweenTwoTasksKnowsWhenItsLastEnded) {
  for (int steps = 4; steps < 12; ++steps) {
    WorldOptions options;
    options.scheduler.max_tasks_in_flight = 1;
    World world(options);
    const auto model = MakeModel(ModelId(1), {1, 1, 1, 1});
    world.Add(model);
    const int64_t begin = world.time().now_ns();
    const RequestId id = world.Submit(world.Sentence(model, 24), 7);
    for (int i = 0; i < steps; ++i) world.Step();
    world.scheduler().Notify(id, News::kCancelled);
    world.Run();
    const auto done = world.TheOne();
    EXPECT_EQ(done->status.code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(done->times.first_task_start, begin);
    EXPECT_EQ(done->times.last_task_end, begin + done->nodes_executed * 1000) << steps;
    world.ExpectClean();
  }
}

TEST(ManagerTest, ExpiredInLineIsAnsweredByTheNextStepAndItsLateNewsIsHarmless) {
  World world;
  const auto model = MakeModel(ModelId(1), {1, 1, 1, 1});
  world.Add(model);
  for (uint64_t i = 0; i < 4; ++i) world.Submit(world.Sentence(model, 5), i);
  world.Step();
  const RequestId late = world.Submit(world.Sentence(model, 5), 9);
  world.scheduler().Notify(late, News::kExpired);
  world.scheduler().StepManager();
  const auto done = world.TheOne();
  EXPECT_EQ(done->tag, 9u);
  EXPECT_EQ(done->status.code(), absl::StatusCode::kDeadlineExceeded);
  world.scheduler().Notify(late, News::kCancelled);
  world.Run();
  for (const auto& r : world.Finished()) EXPECT_TRUE(r->status.ok()) << r->status;
  world.ExpectClean();
}

TEST(ManagerTest, NewsForASlotUsedAgainNeverReachesTheNextRequest) {
  World world;
  const auto model = MakeModel(ModelId(1));
  world.Add(model);
  RequestId last;
  for (uint64_t i = 0; i < 50; ++i) {
    const RequestId id = world.Submit(world.Sentence(model, 2), i);
    if (i > 0) world.scheduler().Notify(last, News::kCancelled);
    world.Run();
    EXPECT_TRUE(world.TheOne()->status.ok());
    last = id;
  }
}

// A chain over its own words; the rule of the simulated memory decides where it stops.
TEST(ManagerTest, AStoppingChainEndsAtItsWordAndWhatRanOnIsCountedAndLeavesNoTrace) {
  for (int depth : {1, 2, 5}) {
    WorldOptions options;
    options.scheduler.max_tasks_in_flight = depth;
    World world(options);
    const auto model = MakeModel(ModelId(1));
    world.Add(model);
    constexpr int32_t kCap = 40;
    for (uint64_t i = 0; i < 20; ++i) {
      world.Submit(world.Decoding(model, kCap, 3), i);
    }
    world.Run();
    const auto all = world.Finished();
    ASSERT_EQ(all.size(), 20u);
    int64_t past = 0;
    int stopped = 0;
    for (const auto& r : all) {
      ASSERT_TRUE(r->status.ok()) << r->status;
      const auto* words = reinterpret_cast<const int32_t*>(r->graph.tensors()[0].bytes.data());
      const int32_t* const stop = std::find(words, words + kCap, 3);
      const auto nodes = static_cast<int32_t>(std::min<ptrdiff_t>(stop - words + 1, kCap));
      for (const int32_t* w = stop; w < words + kCap; ++w) {
        EXPECT_TRUE(w == stop || *w == 0) << "a word behind the stop";
      }
      EXPECT_LE(r->nodes_executed, 1 + nodes + depth - 1);
      past += r->nodes_executed - 1 - nodes;
      stopped += nodes < kCap ? 1 : 0;
    }
    EXPECT_GT(stopped, 5) << "hardly any chain stopped early: the test shows little";
    const auto lanes = world.scheduler().stats().Lanes();
    EXPECT_EQ(lanes[0].types[4].discarded, static_cast<uint64_t>(past));
    EXPECT_TRUE(depth > 1 || past == 0);
    world.ExpectClean();
  }
}

// Root of the node's two predecessors were taken by two workers: it must wait for one of them.
TEST(ManagerTest, ANodeWithPredecessorsOnTwoDevicesAndTwoSinksOnTwoDevicesAreRight) {
  constexpr uint32_t kSeed = 99;
  std::mt19937 random(kSeed);
  WorldOptions options;
  options.devices = 2;
  options.scheduler.stealing = Stealing::kAlways;
  World world(options);
  const auto model = MakeModel(ModelId(1), {2, 2, 2, 2});
  world.Add(model);
  for (uint64_t i = 0; i < 400; ++i) {
    world.Submit(
        world.Make(
            model,
            [&](CellGraph& g) {
              std::vector<SubgraphId> ends;
              for (int k = 0; k < 4; ++k) {
                const SubgraphId tokens = world.Tokens(g, 1);
                SubgraphId at = g.Add(kLeaf, 1, {{.from = tokens, .input = kIn0}});
                for (uint32_t n = random() % 4; n > 0; --n) {
                  at = g.Add(kPair, 1, {{.from = at, .input = kIn0}, {.from = at, .input = kIn1}});
                }
                ends.push_back(at);
              }
              for (int k = 0; k < 2; ++k) {
                const SubgraphId pair = g.Add(kPair, 1,
                                              {{.from = ends[2 * k], .input = kIn0},
                                               {.from = ends[2 * k + 1], .input = kIn1}});
                g.Return(pair, kH, {}, {.tensor = g.AddTensor("OUT", WireType::kFp32, {4})});
              }
            }),
        i);
    for (uint32_t steps = random() % 8; steps > 0; --steps) world.Step();
  }
  world.Run();
  const auto all = world.Finished();
  EXPECT_EQ(all.size(), 400u);
  for (const auto& r : all) EXPECT_TRUE(r->status.ok());
  const auto devices = world.scheduler().stats().Devices();
  EXPECT_GT(devices[0].tasks, 100u) << "seed " << kSeed;
  EXPECT_GT(devices[1].tasks, 100u) << "seed " << kSeed;
  world.ExpectClean();
}

TEST(ManagerTest, AFailedDevicesRequestsFailAndTheOthersGoOn) {
  WorldOptions options;
  options.devices = 2;
  World world(options);
  const auto model = MakeModel(ModelId(1), {4, 4, 4, 4});
  world.Add(model);
  for (uint64_t i = 0; i < 60; ++i) world.Submit(world.Tree(model, 9), i);
  for (int i = 0; i < 12; ++i) world.Step();
  world.device(0).Fail(absl::InternalError("out of smoke"));
  for (uint64_t i = 60; i < 90; ++i) world.Submit(world.Tree(model, 9), i);
  world.Run();
  int ok = 0, failed = 0;
  for (const auto& r : world.Finished()) {
    if (r->status.ok()) ++ok;
    if (r->status.code() == absl::StatusCode::kInternal) ++failed;
    EXPECT_TRUE(r->tag < 60 || r->status.ok()) << "it came when the device was gone";
  }
  EXPECT_EQ(ok + failed, 90);
  EXPECT_GT(failed, 0);
  EXPECT_GT(ok, 30);
  EXPECT_TRUE(world.scheduler().any_device_left());
  EXPECT_FALSE(world.scheduler().DeviceHealth().ok());
  EXPECT_EQ(world.RowsUsed(), 0);
  world.device(1).Fail(absl::InternalError("this one too"));
  world.Submit(world.Tree(model, 9), 100);
  world.Run();
  EXPECT_EQ(world.TheOne()->status.code(), absl::StatusCode::kInternal);
}

TEST(ManagerTest, OfTwoModelsTheFloodedOneLeavesTheOtherHalfOfTheDevice) {
  WorldOptions options;
  options.cost = {.task_ns = 1000, .node_ns = 50};
  World world(options);
  const auto flooded = MakeModel(ModelId(1), {16, 16, 16, 16});
  const auto other = MakeModel(ModelId(2), {16, 16, 16, 16});
  world.Add(flooded);
  world.Add(other);
  for (uint64_t i = 0; i < 2000; ++i) world.Submit(world.Sentence(flooded, 30), i);
  for (int i = 0; i < 500; ++i) world.Step();  // alone for a while: that must not count against it
  int in_flight = 0;
  const auto device_ns = [&](size_t lane) {
    return world.scheduler().stats().Lanes()[lane].device_ns;
  };
  int64_t before[2] = {device_ns(0), device_ns(1)};
  for (int i = 0; i < 6000; ++i) {
    while (in_flight < 20) {
      world.Submit(world.Sentence(other, 30), 1'000'000);
      ++in_flight;
    }
    world.Step();
    for (const auto& r : world.Finished()) in_flight -= r->tag == 1'000'000 ? 1 : 0;
  }
  const double flood = static_cast<double>(device_ns(0) - before[0]);
  const double rest = static_cast<double>(device_ns(1) - before[1]);
  const auto lanes = world.scheduler().stats().Lanes();
  const double share = (lanes[0].model == ModelId(2) ? flood : rest) / (flood + rest);
  EXPECT_GE(share, 0.45);
  EXPECT_LE(share, 0.55);
}

// The two_models benchmark found this: the lane that had been alone was charged for it when the
// other one woke while nobody was awake, and got nothing until the other had caught up.
TEST(ManagerTest, AModelDoesNotOweTheTimeItWasAlone) {
  WorldOptions options;
  options.cost = {.task_ns = 1000, .node_ns = 50};
  World world(options);
  const auto early = MakeModel(ModelId(1), {16, 16, 16, 16});
  const auto late = MakeModel(ModelId(2), {16, 16, 16, 16});
  world.Add(early);
  world.Add(late);
  for (uint64_t i = 0; i < 500; ++i) world.Submit(world.Sentence(early, 30), i);
  world.Run();
  EXPECT_EQ(world.Finished().size(), 500u);
  int in_flight[2] = {0, 0};
  int64_t answered[2] = {0, 0};
  for (int i = 0; i < 3000; ++i) {
    for (uint64_t m = 0; m < 2; ++m) {
      const auto& model = m == 0 ? early : late;
      while ((m == 1 || i > 20) && in_flight[m] < 20) {
        world.Submit(world.Sentence(model, 30), m);
        ++in_flight[m];
      }
    }
    world.Step();
    for (const auto& r : world.Finished()) {
      --in_flight[r->tag];
      ++answered[r->tag];
    }
  }
  EXPECT_GE(answered[0], 0.8 * static_cast<double>(answered[1]));
  EXPECT_GE(answered[1], 0.8 * static_cast<double>(answered[0]));
}

// One request at a time, until `open`.
class OneByOne final : public JoinRule {
 public:
  explicit OneByOne(const bool& open) : open_(open) {}
  bool MayJoin(const JoinView& view) const override { return open_ || view.running == 0; }

 private:
  const bool& open_;
};

// The simulation found this: a model that could not use its share of the device, because what waits could not join or
// all was in flight, saved it up, and kept others away for as long once it could.
TEST(ManagerTest, AModelIsNotOwedWhatItCouldNotUse) {
  WorldOptions options;
  options.cost = {.task_ns = 1000, .node_ns = 500};
  options.scheduler.max_tasks_in_flight = 2;
  World world(options);
  const auto flooded = MakeModel(ModelId(1), {16, 16, 16, 16});
  const auto narrow = MakeModel(ModelId(2), {16, 16, 16, 16});
  world.Add(flooded);
  bool open = false;
  world.Add(narrow, LaneRules(nullptr, std::make_unique<OneByOne>(open)));
  const auto device_ns = [&](ModelId model) {
    for (const LaneStats& lane : world.scheduler().stats().Lanes()) {
      if (lane.model == model) return static_cast<double>(lane.device_ns);
    }
    return 0.0;
  };
  for (uint64_t i = 0; i < 1000; ++i) world.Submit(world.Sentence(flooded, 30), i);
  for (uint64_t i = 0; i < 500; ++i) world.Submit(world.Sentence(narrow, 1), 1000 + i);
  while (device_ns(ModelId(2)) < 150 * 1500) ASSERT_TRUE(world.Step());
  open = true;
  for (uint64_t i = 0; i < 1000; ++i) world.Submit(world.Sentence(narrow, 30), 2000 + i);
  const double before[2] = {device_ns(ModelId(1)), device_ns(ModelId(2))};
  const int64_t begin = world.time().now_ns();
  while (world.time().now_ns() < begin + 500'000) ASSERT_TRUE(world.Step());
  const double flood = device_ns(ModelId(1)) - before[0], burst = device_ns(ModelId(2)) - before[1];
  EXPECT_GE(flood / (flood + burst), 0.45);
  EXPECT_LE(flood / (flood + burst), 0.55);
}

// News of requests that were answered and not taken yet, as many as a storm of deadlines brings: kept, it would be looked
// through at each arrival.
TEST(ManagerTest, NewsThatCameTooLateIsNotKept) {
  constexpr int kRequests = 2000;
  WorldOptions options;
  options.scheduler.max_requests = kRequests;
  World world(options);
  const auto model = MakeModel(ModelId(1));
  world.Add(model);
  std::vector<RequestId> ids;
  for (uint64_t i = 0; i < kRequests; ++i) ids.push_back(world.Submit(world.Sentence(model, 1), i));
  world.Run();
  for (const RequestId id : ids) world.scheduler().Notify(id, News::kExpired);
  const int64_t before = allocations.load();
  while (world.scheduler().StepManager()) {
  }
  EXPECT_EQ(allocations.load() - before, 0);
  EXPECT_EQ(world.Deliveries().size(), size_t{kRequests});
  world.ExpectClean();
}

// One slot. The news that lies in the ring is for who was answered: it hides none that comes too early for who is next.
TEST(ManagerTest, NewsThatCameTooLateHidesNoNewsThatCameTooEarly) {
  WorldOptions options;
  options.scheduler.max_requests = 1;
  World world(options);
  const auto model = MakeModel(ModelId(1));
  world.Add(model);
  const RequestId first = world.Submit(world.Sentence(model, 2), 1);
  world.Run();
  for (const News late : {News::kCancelled, News::kExpired}) {
    world.scheduler().Notify(first, late);
    world.scheduler().StepManager();
  }
  world.scheduler().Notify(first, News::kCancelled);  // lies in the ring, before who comes next
  EXPECT_TRUE(world.TheOne()->status.ok());
  const RequestId second = world.Submit(world.Sentence(model, 50), 2);
  ASSERT_EQ(second.slot, first.slot);
  world.scheduler().Notify(second, News::kCancelled);
  world.Run();
  const auto done = world.TheOne();
  EXPECT_EQ(done->status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(done->nodes_executed, 0);
  world.ExpectClean();
}

// Waiting begins when something becomes ready, not when the type last ran.
TEST(ManagerTest, WhoComesToAnIdleWorkerIsNotOverdue) {
  for (const int32_t levels : {1, 2}) {
    World world;
    const auto model = MakeModel(ModelId(1));
    model->priority_levels = levels;
    world.Add(model);
    for (uint64_t i = 0; i < 5; ++i) {
      world.Submit(world.Sentence(model, 50), i);  // more tasks than anybody may be passed over
      world.Run();
      EXPECT_TRUE(world.TheOne()->status.ok());
    }
    const std::vector<LaneStats> lanes = world.scheduler().stats().Lanes();
    ASSERT_FALSE(lanes[0].decisions.empty());
    for (const DecisionStats& d : lanes[0].decisions) {
      EXPECT_TRUE(d.reason != "overdue" || d.tasks == 0) << d.tasks << " of " << levels;
    }
  }
}

TEST(ManagerTest, NoTypeWaitsForEverBehindFullBatchesOfAnother) {
  World world;
  const auto model = MakeModel(ModelId(1), {4, 4, 4, 4});  // heads have the highest priority
  world.Add(model);
  const RequestId id = world.Submit(world.Sentence(model, 3), 1);
  (void)id;
  int64_t tasks = 0;
  bool answered = false;
  std::mt19937 random(5);
  for (uint64_t i = 2; !answered && i < 3000; ++i) {
    for (int k = 0; k < 2; ++k) world.Submit(world.Tree(model, 8), i);  // floods leaf and pair
    for (int k = 0; k < 4; ++k) world.Step();
    for (const auto& r : world.Finished()) answered = answered || r->tag == 1;
    tasks = static_cast<int64_t>(world.scheduler().stats().Devices()[0].tasks);
  }
  EXPECT_TRUE(answered);
  EXPECT_LE(tasks, 4 * 22) << "4 nodes, each passed over at most max_wait_tasks = 20 times";
}

// What steps allocate once they are warm, of requests that join so and have so many priority levels.
void ExpectNoAllocationsOnceWarm(const JoinSpec& join, int32_t levels = 1) {
  SCOPED_TRACE(Name(join));
  WorldOptions options;
  options.devices = 2;
  options.zero_cost = true;
  options.fingerprints = false;
  World world(options);
  const auto model = MakeModel(ModelId(1), {8, 8, 8, 8});
  model->priority_levels = levels;
  world.Add(model, LaneRules(nullptr, MakeJoinRule(join)));
  const auto decoding = [&] {
    auto request = world.Decoding(model, 9, 99);
    request->stream = true;
    return request;
  };
  int64_t in_steps = 0, steps = 0, words = 0;
  for (uint64_t round = 0; round < 60; ++round) {
    std::vector<RequestId> ids;
    for (uint64_t i = 0; i < 50; ++i) {
      auto request = i % 2 == 0 ? world.Sentence(model, 12) : world.Tree(model, 12);
      request->priority = static_cast<int32_t>(i) % (levels + 1);
      ids.push_back(world.Submit(std::move(request), i));
    }
    for (uint64_t i = 0; i < 10; ++i) world.Submit(decoding(), 50 + i);
    world.scheduler().Notify(ids[round % 50], News::kCancelled);
    bool worked = true;
    while (worked) {
      const int64_t before = allocations.load();
      worked = world.scheduler().StepManager();
      for (int d = 0; d < 2; ++d) worked |= world.scheduler().StepWorker(d);
      if (round >= 10) {
        in_steps += allocations.load() - before;
        ++steps;
      }
    }
    for (const Delivery& d : world.Deliveries()) words += d.words;
  }
  EXPECT_GT(words, 1000);
  EXPECT_GT(steps, 1000);
  EXPECT_EQ(in_steps, 0);
}

TEST(ManagerTest, StepsAllocateNothingOnceWarm) {
  ExpectNoAllocationsOnceWarm({});
  ExpectNoAllocationsOnceWarm({.whole_graphs = 16,
                               .batching = {.padding = GraphBatching::Padding::kBucket,
                                            .bucket_width = 10,
                                            .leave_together = true}});
  ExpectNoAllocationsOnceWarm({}, 3);
}

TEST(ManagerTest, StopAnswersEveryRequestOnce) {
  World world;
  const auto model = MakeModel(ModelId(1), {2, 2, 2, 2});
  world.Add(model);
  for (uint64_t i = 0; i < 100; ++i) world.Submit(world.Sentence(model, 10), i);
  for (int i = 0; i < 30; ++i) world.Step();
  world.device(0).set_moves_time(true);
  world.scheduler().Stop();
  std::map<uint64_t, int> answers;
  int unavailable = 0;
  for (const auto& r : world.Finished()) {
    ++answers[r->tag];
    unavailable += r->status.code() == absl::StatusCode::kUnavailable ? 1 : 0;
  }
  EXPECT_EQ(answers.size(), 100u);
  EXPECT_GT(unavailable, 50);
  EXPECT_EQ(world.RowsUsed(), 0);
}

// They write to what is given back after it.
TEST(ManagerTest, WhenStopReturnsNoTaskIsInFlight) {
  WorldOptions options;
  options.scheduler.max_tasks_in_flight = 4;
  options.device = [](SimDeviceOptions& device) { device.runs = SimRuns::kInTime; };
  World* stepped = nullptr;
  options.scheduler.meanwhile = [&] { return stepped->Step(); };
  World world(options);
  stepped = &world;
  const auto model = MakeModel(ModelId(1), {2, 2, 2, 2});
  world.Add(model);
  for (uint64_t i = 0; i < 20; ++i) world.Submit(world.Sentence(model, 10), i);
  for (int i = 0; i < 5; ++i) world.Step();
  ASSERT_GT(world.scheduler().stats().Devices()[0].tasks_in_flight, 2);
  world.scheduler().Stop();
  EXPECT_EQ(world.scheduler().stats().Devices()[0].tasks_in_flight, 0);
  EXPECT_EQ(world.Finished().size(), 20u);
  world.ExpectClean();
}

TEST(ManagerTest, WhatSubmitTookBeforeAModelWasRemovedIsRun) {
  World world;
  const auto model = MakeModel(ModelId(1));
  world.Add(model);
  for (uint64_t i = 0; i < 10; ++i)
    world.Submit(world.Sentence(model, 4), i);  // nobody saw them yet
  ASSERT_TRUE(world.Remove(ModelId(1)).ok());
  const auto all = world.Finished();
  EXPECT_EQ(all.size(), 10u);
  for (const auto& r : all) EXPECT_TRUE(r->status.ok()) << r->status;
}

// How often it was asked.
class CountingSteal final : public StealRule {
 public:
  explicit CountingSteal(int& asked) : asked_(asked) {}
  int32_t Nodes(int32_t nodes, int32_t max_batch) const override {
    ++asked_;
    return StealHalf().Nodes(nodes, max_batch);
  }

 private:
  int& asked_;
};

// Algorithm 1's second criterion: it keeps the device fed with both, while more of the first would be small tasks.
TEST(ManagerTest, ATypeOfWhichNothingRunsGoesBeforeAMoreImportantOneThatRuns) {
  std::vector<CellTypeId> ran;
  WorldOptions options;
  options.scheduler.max_tasks_in_flight = 2;
  options.device = [&](SimDeviceOptions& device) {
    device.runs = SimRuns::kInTime;
    device.task_ns = [&](const BatchedTask& task) {
      ran.push_back(task.cell);
      return int64_t{1000};
    };
  };
  World world(options);
  const auto model = MakeModel(ModelId(1));
  ASSERT_GT(model->types[1].priority, model->types[0].priority);
  world.Add(model);
  ran.clear();
  const auto leaf = [&] {
    return world.Make(model, [&](CellGraph& g) {
      g.Add(kLeaf, 1, {{.from = world.Tokens(g, 1), .input = kIn0}});
    });
  };
  world.Submit(leaf(), 1);
  world.scheduler().StepManager();
  world.Submit(leaf(), 2);
  world.Submit(world.Sentence(model, 1), 3);
  world.scheduler().StepManager();
  world.Run();
  EXPECT_EQ(world.Finished().size(), 3u);
  ASSERT_GE(ran.size(), 3u);
  EXPECT_EQ(ran[0], kLeaf);
  EXPECT_EQ(ran[1], kChain);
  world.ExpectClean();
}

// As many roots as a byte does not count, and one more. What is copied in goes to one worker, and nobody reads it elsewhere
// before it is there.
TEST(ManagerTest, ARequestOfManyRootsIsNotStolenInParts) {
  WorldOptions options;
  options.devices = 2;
  options.scheduler.stealing = Stealing::kAlways;
  World world(options);
  const auto model = MakeModel(ModelId(1));
  world.Add(model);
  const auto leaves = [&](int32_t roots) {
    return world.Make(model, [&](CellGraph& g) {
      const SubgraphId tokens = world.Tokens(g, roots);
      const int32_t tensor = g.AddTensor("OUTPUT", WireType::kFp32, {roots, 4});
      for (int32_t i = 0; i < roots; ++i) {
        const SubgraphId leaf = g.Add(kLeaf, 1, {{.from = tokens, .input = kIn0, .first = i}});
        g.Return(leaf, kH, {}, {.tensor = tensor, .offset_bytes = 16 * i});
      }
    });
  };
  world.Submit(leaves(1), 1);    // goes to the first worker
  world.Submit(leaves(257), 2);  // so this one goes to the second
  world.scheduler().StepManager();
  world.scheduler().StepWorker(1);
  world.Run();
  for (const auto& r : world.Finished()) EXPECT_TRUE(r->status.ok()) << r->status;
  world.ExpectClean();
}

TEST(ManagerTest, WhereStealingIsOffNobodySteals) {
  for (const Stealing stealing : {Stealing::kNever, Stealing::kWhenIdle}) {
    WorldOptions options;
    options.devices = 2;
    options.scheduler.stealing = stealing;
    World world(options);
    const auto model = MakeModel(ModelId(1), {1, 1, 1, 1});
    int asked = 0;
    LaneRules rules;
    rules.steal = std::make_unique<CountingSteal>(asked);
    world.Add(model, std::move(rules));
    for (uint64_t i = 0; i < 60; ++i) {
      world.Submit(world.Sentence(model, 1 + static_cast<int32_t>(i * 7 % 23)), i);
    }
    world.Run();
    EXPECT_EQ(world.Finished().size(), 60u);
    EXPECT_EQ(asked > 0, stealing == Stealing::kWhenIdle) << asked;
    world.ExpectClean();
  }
}

TEST(ManagerTest, WhatWaitsWhatIsReadyAndWhatRanIsCountedByItsNodes) {
  WorldOptions options;
  options.devices = 2;
  World world(options);
  const auto model = MakeModel(ModelId(1), {1, 1, 1, 1});
  world.Add(model);
  const auto lane = [&] { return world.scheduler().stats().Lanes()[0]; };
  constexpr int64_t kRequests = 40, kNodes = 11;
  std::vector<RequestId> ids;
  for (uint64_t i = 0; i < kRequests; ++i)
    ids.push_back(world.Submit(world.Sentence(model, 10), i));
  world.scheduler().StepManager();
  const LaneStats before = lane();
  EXPECT_EQ(before.running_requests + before.waiting_requests, kRequests);
  EXPECT_EQ(before.running_requests, 4) << "two batches of one for each worker";
  EXPECT_EQ(before.waiting_cells, kNodes * before.waiting_requests);
  EXPECT_EQ(before.types[0].ready, before.running_requests) << "on both workers";
  world.scheduler().Notify(ids.back(), News::kCancelled);
  world.scheduler().StepManager();
  EXPECT_EQ(lane().waiting_cells, kNodes * (before.waiting_requests - 1));
  world.Run();
  EXPECT_EQ(world.Finished().size(), size_t{kRequests});
  const LaneStats after = lane();
  EXPECT_EQ(after.waiting_cells, 0);
  EXPECT_EQ(after.types[0].ready, 0);
  EXPECT_EQ(after.types[0].cells, uint64_t{10 * (kRequests - 1)});
  int64_t by_size = 0;
  for (const int64_t ns : after.types[0].batch_ns) by_size += ns;
  EXPECT_EQ(by_size, after.types[0].task_ns.sum);
  const std::vector<TypeTasks> tasks = world.scheduler().stats().TasksOf(model->id);
  EXPECT_EQ(tasks[0].tasks, after.types[0].tasks);
  EXPECT_EQ(tasks[0].ns, after.types[0].task_ns.sum);
  world.ExpectClean();
}

TEST(ManagerTest, WhatNobodyTookGoesWithTheScheduler) {
  const auto model = MakeModel(ModelId(1), {2, 2, 2, 2});
  {
    World world;
    world.Add(model);
    for (uint64_t i = 0; i < 100; ++i) world.Submit(world.Sentence(model, 10), i);  // most wait
    for (int i = 0; i < 30; ++i) world.Step();
    EXPECT_GT(model.use_count(), 100);
  }
  EXPECT_EQ(model.use_count(), 1);
}

TEST(ManagerTest, ARequestLargerThanTheTablesIsRefusedAndDoesNotHoldUpTheLine) {
  World world;
  const auto model = MakeModel(ModelId(1));
  world.Add(model);
  const int32_t most = world.scheduler().MaxRowsPerRequest(ModelId(1))[0];
  world.Submit(world.Sentence(model, most + most / 8), 1);
  world.Submit(world.Sentence(model, 3), 2);
  world.Run();
  for (const auto& r : world.Finished()) {
    EXPECT_EQ(r->status.code(),
              r->tag == 1 ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kOk);
  }
  world.ExpectClean();
}

TEST(ManagerTest, AModelIsRemovedWhenItsLastRequestHasLeftAndCanComeBack) {
  World world;
  const auto model = MakeModel(ModelId(1));
  for (uint64_t round = 0; round < 5; ++round) {
    world.Add(model);
    for (uint64_t i = 0; i < 10; ++i) world.Submit(world.Sentence(model, 4), i);
    world.device(0).set_moves_time(true);
    EXPECT_TRUE(world.scheduler().RemoveModel(ModelId(1)).ok());
    const auto all = world.Finished();
    EXPECT_EQ(all.size(), 10u);
    for (const auto& r : all) {
      EXPECT_TRUE(r->status.ok() || r->status.code() == absl::StatusCode::kUnavailable);
    }
    std::unique_ptr<Request> refused = world.Sentence(model, 4);
    EXPECT_FALSE(world.scheduler().Submit(refused).has_value());
    EXPECT_NE(refused, nullptr) << "it is still the caller's";
  }
  EXPECT_EQ(world.scheduler().RemoveModel(ModelId(1)).code(), absl::StatusCode::kNotFound);
}

// T(b) = 20 us + 1 us b: b/T(b) is 0.95 of what 512 nodes reach from b = 214 on; the next size is 256.
TEST(ManagerTest, ALaneMeasuresItsTypesThroughTheRingBeforeItOpens) {
  WorldOptions options;
  options.cost = {.task_ns = 20'000, .node_ns = 1000};
  options.calibrate = true;
  World world(options);
  const auto model = MakeModel(ModelId(1), {0, 4, 0, 0, 0});
  world.Add(model);
  const auto results = world.scheduler().Calibration(ModelId(1));
  ASSERT_EQ(results.size(), 5u);
  EXPECT_EQ(results[0].max_batch, 256);
  EXPECT_EQ(results[0].peak_batch, 384) << "of 512: 0.987 of its rate; 256: 0.964";
  EXPECT_EQ(results[1].max_batch, 4) << "configured";
  EXPECT_EQ(results[1].peak_batch, 4) << "and never more";
  for (const CellTypeCalibration& type : results) {
    ASSERT_FALSE(type.points.empty());
    for (const CalibrationPoint& p : type.points) EXPECT_EQ(p.task_ns, 20'000 + 1000 * p.batch);
  }
  world.Submit(world.Sentence(model, 5), 1);
  world.Run();
  EXPECT_TRUE(world.TheOne()->status.ok());
  world.ExpectClean();
}

TEST(ManagerTest, TasksOfAWarmUpAreMeasuredAndThoseOfRequestsAreNot) {
  int measured = 0, others = 0;
  WorldOptions options;
  options.calibrate = true;
  options.device = [&](SimDeviceOptions& device) {
    device.task_ns = [&](const BatchedTask& task) {
      ++(task.measured ? measured : others);
      return int64_t{1000};
    };
  };
  World world(options);
  const auto model = MakeModel(ModelId(1));
  world.Add(model);
  EXPECT_GT(measured, 0);
  EXPECT_EQ(others, 0);
  const int warm = measured;
  world.Submit(world.Sentence(model, 5), 1);
  world.Run();
  EXPECT_EQ(measured, warm);
  EXPECT_GT(others, 0);
}

}  // namespace
}  // namespace cellbatch
