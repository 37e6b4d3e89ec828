// Claims about devices that run by themselves: time stamps, sequences that wrap, devices that fail
// while they still write, and devices that hang.
#include <map>
#include <random>
#include <thread>

#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using namespace scheduler_testing;

WorldOptions Async(int devices = 1) {
  WorldOptions options;
  options.devices = devices;
  options.device = [](SimDeviceOptions& o) {
    o.runs = SimRuns::kInTime;
    o.late_writes = true;
  };
  return options;
}

// All tasks of three chains, one a request, are done before anybody looks.
void ExpectOwnTimes(World& world) {
  const auto model = MakeModel(ModelId(1), {1, 1, 1, 1});
  world.Add(model);
  const int64_t begin = world.time().now_ns();
  const int64_t busy_ns = world.scheduler().stats().Devices()[0].busy_ns;  // warming up
  const auto lone = [&] {
    return world.Make(model, [&](CellGraph& g) {
      const SubgraphId leaf = g.Add(kLeaf, 1, {{.from = world.Tokens(g, 1), .input = kIn0}});
      g.Return(leaf, kH, {}, {.tensor = g.AddTensor("OUTPUT", WireType::kFp32, {4})});
    });
  };
  for (uint64_t i = 0; i < 3; ++i) world.Submit(lone(), i);
  world.scheduler().StepManager();
  world.device(0).HoldSignal(true);
  world.Run();
  world.time().AdvanceTo(begin + 10'000);
  EXPECT_TRUE(world.Finished().empty());
  world.device(0).HoldSignal(false);
  world.Run();
  const auto all = world.Finished();
  ASSERT_EQ(all.size(), 3u);
  for (const auto& r : all) {
    const int64_t start = begin + 1000 * static_cast<int64_t>(r->tag);
    EXPECT_EQ(r->times.first_task_start, start) << "request " << r->tag;
    EXPECT_EQ(r->times.last_task_end, start + 1000) << "request " << r->tag;
  }
  EXPECT_EQ(world.scheduler().stats().Devices()[0].busy_ns - busy_ns, 3000);
}

TEST(AsyncDeviceTest, TasksSeenDoneInOnePollHaveTimesOfTheirOwn) {
  for (const SimRuns runs : {SimRuns::kInAdvance, SimRuns::kInTime}) {
    for (const int64_t clock_ns : {0, 123'456'789, -1'000'000'000}) {
      WorldOptions options;
      options.scheduler.max_tasks_in_flight = 4;
      options.device = [&](SimDeviceOptions& o) {
        o.runs = runs;
        o.clock_ns = clock_ns;
      };
      World world(options);
      ExpectOwnTimes(world);
    }
  }
}

// Rings, pins and the devices' counters start just below where they wrap.
TEST(AsyncDeviceTest, SequencesWrapUnderTheSchedulerWithoutHarm) {
  constexpr uint32_t kSeed = 31;
  for (const uint64_t wrap :
       {uint64_t{1} << 8, uint64_t{1} << 31, uint64_t{1} << 32, uint64_t{0}}) {
    for (const int bits : {8, 32, 33, 64}) {
      WorldOptions options;
      options.devices = 2;
      options.scheduler.stealing = Stealing::kAlways;
      options.device = [&](SimDeviceOptions& o) {
        o.runs = SimRuns::kInTime;
        o.signal_bits = bits;
        o.first_sequence = wrap - 200;
      };
      World world(options);
      const auto model = MakeModel(ModelId(1), {4, 4, 4, 4, 4});
      world.Add(model);
      std::mt19937 random(kSeed);
      std::vector<RequestId> ids;
      constexpr uint64_t kRequests = 150;
      for (uint64_t i = 0; i < kRequests; ++i) {
        const int32_t n = 1 + static_cast<int32_t>(random() % 20);
        ids.push_back(
            world.Submit(random() % 2 == 0 ? world.Sentence(model, n) : world.Tree(model, n), i));
        if (random() % 9 == 0)
          world.scheduler().Notify(ids[random() % ids.size()], News::kCancelled);
        for (uint32_t steps = random() % 24; steps > 0; --steps) world.Step();
      }
      world.Run();
      EXPECT_EQ(world.Finished().size(), kRequests) << "seed " << kSeed;
      EXPECT_GT(world.device(0).tasks_done(), 250) << "too few to wrap";
      EXPECT_GT(world.device(1).tasks_done(), 250) << "too few to wrap";
      world.ExpectClean();
    }
  }
}

// The device failed and still writes: what it writes must belong to nobody else by then.
TEST(AsyncDeviceTest, AFailedDeviceWritesNothingAnyMoreOnceItsRequestsAreAnswered) {
  for (const int devices : {1, 2}) {
    WorldOptions options = Async(devices);
    options.scheduler.max_tasks_in_flight = 3;
    World world(options);
    const auto model = MakeModel(ModelId(1), {4, 4, 4, 4});
    world.Add(model);
    for (uint64_t i = 0; i < 60; ++i) world.Submit(world.Tree(model, 9), i);
    for (int i = 0; i < 12; ++i) world.Step();
    SimDevice& broken = world.device(0);
    ASSERT_NE(broken.next_event_ns(), std::nullopt) << "nothing is under way";
    broken.Fail(absl::InternalError("out of smoke"));
    int failed = 0;
    int64_t writes = -1;
    const auto take = [&] {
      for (const auto& r : world.Finished()) {
        if (r->status.code() != absl::StatusCode::kInternal) continue;
        if (failed++ == 0) writes = broken.writes();
      }
    };
    for (int i = 0; i < 5000; ++i) {
      world.Step();
      take();
      if (failed > 0) world.time().AdvanceTo(world.time().now_ns() + 500);
    }
    EXPECT_GT(failed, 0);
    EXPECT_EQ(broken.writes(), writes) << "it wrote after its requests were answered";
    EXPECT_EQ(world.memory().violations().count(), 0);
    for (const std::string& what : world.memory().violations().first()) ADD_FAILURE() << what;
    EXPECT_EQ(world.RowsUsed(), 0);
  }
}

TEST(AsyncDeviceTest, ATaskBeyondItsLimitMakesItsDeviceAHungOne) {
  WorldOptions options = Async(2);
  options.scheduler.task_time_limit = absl::Microseconds(200);
  options.scheduler.task_time_factor = 20;  // of a microsecond
  World world(options);
  const auto model = MakeModel(ModelId(1), {4, 4, 4, 4});
  world.Add(model);
  for (uint64_t i = 0; i < 40; ++i) world.Submit(world.Sentence(model, 6), i);
  for (int i = 0; i < 30; ++i) world.Step();
  SimDevice& hung = world.device(0);
  hung.Hang();
  const int64_t since = world.time().now_ns();
  world.Run();
  ASSERT_LT(world.time().now_ns(), since + 190'000);
  EXPECT_TRUE(world.scheduler().DeviceHealth().ok()) << "it is not late yet";
  world.time().AdvanceTo(since + 190'000);
  world.Run();
  EXPECT_TRUE(world.scheduler().DeviceHealth().ok()) << "it is not late yet";
  EXPECT_FALSE(hung.abandoned());
  world.time().AdvanceTo(since + 202'000);
  world.Run();
  const absl::Status health = world.scheduler().DeviceHealth();
  EXPECT_EQ(health.code(), absl::StatusCode::kInternal);
  EXPECT_NE(health.message().find("device sim:0: hung: task "), std::string::npos) << health;
  EXPECT_NE(health.message().find(" of cell \"chain\", 4 nodes, ran 20"), std::string::npos)
      << health;
  EXPECT_NE(health.message().find(", limit 200us"), std::string::npos) << health;
  EXPECT_TRUE(hung.abandoned());
  EXPECT_TRUE(world.scheduler().any_device_left());
  int ok = 0, failed = 0;
  for (const auto& r : world.Finished()) {
    ok += r->status.ok() ? 1 : 0;
    if (r->status.code() != absl::StatusCode::kInternal) continue;
    ++failed;
    EXPECT_NE(r->status.message().find("hung: task"), std::string::npos) << r->status;
  }
  EXPECT_EQ(ok + failed, 40);
  EXPECT_GT(failed, 0);
  EXPECT_EQ(world.RowsUsed(), 0);
}

// The limit follows what such tasks take: one that always takes 50 us is not hung after 60.
TEST(AsyncDeviceTest, ATasksLimitIsAMultipleOfWhatSuchATaskTook) {
  WorldOptions options = Async();
  options.cost = {.task_ns = 50'000, .node_ns = 0};
  options.scheduler.task_time_limit = absl::Microseconds(60);
  options.scheduler.task_time_factor = 3;
  World world(options);
  const auto model = MakeModel(ModelId(1), {4, 4, 4, 4});
  world.Add(model);
  for (uint64_t i = 0; i < 8; ++i) world.Submit(world.Sentence(model, 6), i);
  world.Run();
  EXPECT_EQ(world.Finished().size(), 8u);
  world.Submit(world.Sentence(model, 6), 8);
  for (int i = 0; i < 4; ++i) world.Step();
  world.device(0).Hang(99'000);  // 149 in all
  world.time().AdvanceTo(world.time().now_ns() + 90'000);
  for (int i = 0; i < 3; ++i) world.scheduler().StepWorker(0);
  EXPECT_TRUE(world.scheduler().DeviceHealth().ok()) << "60 us are over, three times 50 are not";
  world.Run();
  EXPECT_TRUE(world.TheOne()->status.ok());
  world.Submit(world.Sentence(model, 6), 9);
  for (int i = 0; i < 4; ++i) world.Step();
  world.device(0).Hang(150'000);
  world.Run();
  EXPECT_TRUE(world.scheduler().DeviceHealth().ok()) << "time passed the limit and the end at once";
  EXPECT_TRUE(world.TheOne()->status.ok());
}

// One device that runs by itself, four tasks deep: manager, worker and device on threads of their own.
TEST(AsyncDeviceTest, AloneItRunsBesideManagerAndWorker) {
  SimTime time;
  VirtualClock clock(time);
  DeviceSet set;
  auto memory = std::make_unique<SimMemory>();
  SimMemory& rows = *memory;
  SimDeviceOptions device;
  device.runs = SimRuns::kOnThread;
  device.cost = {.task_ns = 1000, .node_ns = 10};
  device.queue_capacity = 4;
  set.devices.push_back(std::make_unique<SimDevice>(device, *memory, time));
  set.memories.push_back(std::move(memory));
  SchedulerOptions options;
  options.max_tasks_in_flight = 4;
  options.max_requests = 256;
  options.row_budget_bytes = 1 << 20;
  options.calibrate = false;
  auto scheduler = *Scheduler::Create(options, std::move(set), clock);
  const auto model = MakeModel(ModelId(1), {4, 4, 4, 4});
  ASSERT_TRUE(scheduler->AddModel(model, nullptr).ok());
  constexpr int32_t kTokens = 12, kRequests = 200;
  const std::vector<int32_t> tokens(kTokens, 5);
  for (int32_t i = 0; i < kRequests; ++i) {
    auto request = std::make_unique<Request>();
    request->model = model;
    CellGraph& g = request->graph;
    const SubgraphId in = g.AddInput(scheduler_testing::kTokens, kTokens,
                                     reinterpret_cast<const std::byte*>(tokens.data()));
    const SubgraphId chain = g.Add(kChain, kTokens, {{.from = in, .input = kIn0, .stride = 1}});
    g.Return(chain, kH, {kTokens - 1, 1}, {.tensor = g.AddTensor("OUTPUT", WireType::kFp32, {4})});
    ASSERT_TRUE(g.Seal(*model, scheduler->max_tasks_in_flight()).ok());
    ASSERT_TRUE(scheduler->Submit(request).has_value());
  }
  std::vector<std::unique_ptr<Request>> answers;
  while (answers.size() < kRequests) {
    std::unique_ptr<Request> some[16];
    const int n = scheduler->Take(OutboxId(0), absl::MakeSpan(some));
    for (int i = 0; i < n; ++i) answers.push_back(std::move(some[i]));
    if (n == 0) scheduler->WaitForFinished(OutboxId(0), absl::Seconds(1));
  }
  for (const auto& r : answers) {
    ASSERT_TRUE(r->status.ok()) << r->status;
    const auto bytes = r->graph.tensors()[0].bytes, first = answers[0]->graph.tensors()[0].bytes;
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), first.begin()));
  }
  EXPECT_EQ(rows.violations().count(), 0);
  scheduler->Stop();
}

// Devices that reach host blocks only: whatever tasks copy lies there (else the device says so), and what
// was answered, streamed or grown is what it is where devices reach the requests' own tensors.
TEST(AsyncDeviceTest, WhereDevicesReachHostBlocksOnlyAnswersAreTheSame) {
  std::map<uint64_t, std::vector<std::byte>> answers[2];
  for (const bool apart : {false, true}) {
    const auto blocks = std::make_shared<SimHostBlocks>();
    WorldOptions options = Async(2);
    if (apart) options.host_blocks = blocks;
    World world(options);
    const auto model = MakeModel(ModelId(1), {4, 4, 4, 4, 4});
    world.Add(model);
    const auto decoding = [&](bool stream) {
      auto request = world.Make(model, [&](CellGraph& g) {
        const SubgraphId leaf = g.Add(kLeaf, 1, {{.from = world.Tokens(g, 1), .input = kIn0}});
        const SubgraphId words =
            g.Add(kDecoder, 40, {{.from = leaf, .input = kIn0}}, Stop{kWord, 3});
        g.Return(leaf, kH, {}, {.tensor = g.AddTensor("STATE", WireType::kFp32, {4})});
        const int32_t tensor = g.AddTensor("WORDS", WireType::kInt32, {40});
        g.Return(words, kWord, {0, 40}, {.tensor = tensor, .stride_bytes = 4});
      });
      request->stream = stream;
      return request;
    };
    for (uint64_t i = 0; i < 60; ++i) {
      const RequestId id = world.Submit(i % 3 == 0   ? world.Sentence(model, 7)
                                        : i % 3 == 1 ? world.Tree(model, 9)
                                                     : decoding(i % 2 == 0),
                                        i);
      if (i == 50) world.scheduler().Notify(id, News::kCancelled);
    }
    int64_t told = 0;
    while (world.Step()) {
      for (const Delivery& d : world.Deliveries()) {
        if (d.kind == Delivery::Kind::kWords) {
          const auto* words =
              reinterpret_cast<const int32_t*>(d.request->graph.tensors()[1].bytes.data());
          for (int32_t w = 0; w + 1 < d.words; ++w) EXPECT_NE(words[w], 3);
          told += d.words;
          EXPECT_EQ(blocks->bytes_in_use() > 0, apart);
          continue;
        }
        if (!d.done->status.ok()) continue;
        for (const ReturnedTensor& t : d.done->graph.tensors()) {
          auto& bytes = answers[apart ? 1 : 0][d.done->tag];
          bytes.insert(bytes.end(), t.bytes.begin(), t.bytes.end());
        }
      }
    }
    EXPECT_GT(told, 100);
    EXPECT_EQ(blocks->bytes_in_use(), 0);
    world.ExpectClean();
  }
  EXPECT_EQ(answers[0].size(), 59u);
  EXPECT_EQ(answers[0], answers[1]);
}

TEST(AsyncDeviceTest, WhereHostBlocksAreUsedUpARequestIsToldSo) {
  WorldOptions options = Async();
  options.host_blocks = std::make_shared<SimHostBlocks>(/*most_bytes=*/100);
  World world(options);
  const auto model = MakeModel(ModelId(1), {4, 4, 4, 4, 4});
  world.Add(model);
  world.Submit(world.Sentence(model, 40), 1);
  world.Run();
  const auto refused = world.TheOne();
  EXPECT_EQ(refused->status.code(), absl::StatusCode::kResourceExhausted) << refused->status;
  world.Submit(world.Sentence(model, 4), 2);
  world.Run();
  EXPECT_TRUE(world.TheOne()->status.ok());
  EXPECT_EQ(options.host_blocks->bytes_in_use(), 0);
  world.ExpectClean();
}

}  // namespace
}  // namespace cellbatch
