// Claims about models that come and go: beside traffic, one after the other, and while devices die.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using namespace scheduler_testing;

// Two devices on one memory that measure; the first dies by itself after so many tasks, the second too.
WorldOptions TwoThatDie(int64_t first, int64_t second) {
  WorldOptions options;
  options.devices = 2;
  options.calibrate = true;
  options.cost = {.task_ns = 20'000, .node_ns = 1000};
  options.device = [=](SimDeviceOptions& device) {
    device.fails_after_tasks = device.name == "sim:0" ? first : second;
  };
  return options;
}

void ExpectServed(World& world, const std::shared_ptr<const Model>& model) {
  world.Submit(world.Sentence(model, 5), 1);
  world.Run();
  const auto done = world.TheOne();
  ASSERT_NE(done, nullptr);
  EXPECT_TRUE(done->status.ok()) << done->status;
  world.ExpectClean();
}

TEST(ModelLifeTest, AModelIsLoadedAndMeasuredWithoutTheFirstDevice) {
  World world(TwoThatDie(0, -1));
  const auto first = MakeModel(ModelId(1)), second = MakeModel(ModelId(2), {0, 4, 0, 0, 0});
  world.Add(first);  // it dies of this
  ASSERT_FALSE(world.scheduler().DeviceHealth().ok());
  const absl::Status added = world.TryAdd(second);
  ASSERT_TRUE(added.ok()) << added;
  const auto measured = world.scheduler().Calibration(ModelId(2));
  ASSERT_EQ(measured.size(), 5u);
  EXPECT_EQ(measured[0].max_batch, 256);
  EXPECT_EQ(measured[1].max_batch, 4) << "configured";
  ExpectServed(world, second);
}

TEST(ModelLifeTest, WheneverADeviceDiesDuringTheWarmUpTheOtherOneServes) {
  for (int64_t tasks = 1; tasks < 700; tasks += tasks) {
    World world(TwoThatDie(tasks, -1));
    const auto model = MakeModel(ModelId(1), {0, 4, 0, 0, 0});
    const absl::Status added = world.TryAdd(model);
    ASSERT_TRUE(added.ok()) << added << " after task " << tasks;
    EXPECT_EQ(world.scheduler().Calibration(ModelId(1))[0].max_batch, 256) << "task " << tasks;
    ExpectServed(world, model);
  }
}

TEST(ModelLifeTest, AModelForWhichNoDeviceIsLeftIsRefusedWithTheReason) {
  for (const std::pair<int64_t, int64_t> deaths : {std::pair(0, 0), {0, 50}, {50, 0}, {90, 40}}) {
    World world(TwoThatDie(deaths.first, deaths.second));
    for (int id = 1; id < 3; ++id) {  // they die of the first one; the second one finds them dead
      const absl::Status added = world.TryAdd(MakeModel(ModelId(id)));
      EXPECT_EQ(added.code(), absl::StatusCode::kUnavailable);
      EXPECT_NE(std::string(added.message()).find("no device is left: device sim:0: "),
                std::string::npos)
          << added;
    }
    EXPECT_TRUE(world.scheduler().stats().Lanes().empty());
    EXPECT_EQ(world.Remove(ModelId(1)).code(), absl::StatusCode::kNotFound);
  }
}

// Before, a lane that warmed paid nothing until it opened, and went first every time.
TEST(ModelLifeTest, AModelThatWarmsLeavesTheOthersNearlyAllOfTheDevice) {
  WorldOptions options;
  options.calibrate = true;
  World world(options);
  const auto serving = MakeModel(ModelId(1), {1, 1, 1, 1, 1});
  world.Add(serving);
  for (uint64_t i = 0; i < 3000; ++i) world.Submit(world.Sentence(serving, 24), i);
  const auto device_ns = [&] { return world.scheduler().stats().Lanes()[0].device_ns; };
  const int64_t begin = world.time().now_ns(), served = device_ns();
  world.Add(MakeModel(ModelId(2)));
  const int64_t took = world.time().now_ns() - begin;
  EXPECT_GE(device_ns() - served, took * 96 / 100);
  world.Run();
  EXPECT_EQ(world.Finished().size(), 3000u);
}

// One request after the other, the device free half of the time; counts the tasks of a model that loads meanwhile.
class OneAtATime final : public SimObserver {
 public:
  OneAtATime() {
    WorldOptions options;
    options.calibrate = true;
    options.cost = {.task_ns = 100'000, .node_ns = 100};
    options.scheduler.meanwhile = [this] { return Meanwhile(); };
    world_ = std::make_unique<World>(options);
    world_->device(0).set_observer(this);
  }
  void Load() {
    world_->Add(serving_);
    serves_ = true;
    Meanwhile();  // the first request is there before
    world_->Add(MakeModel(ModelId(2)));
  }

  int between_tasks = 0, alone = 0;

 private:
  bool Meanwhile() {
    const int64_t now = world_->time().now_ns();
    if (serves_ && !running_ && now >= next_ns_) {
      world_->Submit(world_->Sentence(serving_, 10), 1);
      running_ = true;
      tasks_left_ = 11;
    }
    if (!world_->Step()) world_->time().AdvanceTo(now + 50'000);
    if (!world_->Finished().empty()) {
      running_ = false;
      next_ns_ = world_->time().now_ns() + 1'000'000;
    }
    return true;
  }
  void Started(const Device&, const BatchedTask& task) override {
    if (task.model->model().id == ModelId(2)) ++(tasks_left_ > 0 ? between_tasks : alone);
  }
  void Done(const Device&, const BatchedTask& task, absl::Span<const Fingerprint>) override {
    if (task.model->model().id == ModelId(1)) --tasks_left_;
  }

  const std::shared_ptr<const Model> serving_ = MakeModel(ModelId(1), {1, 1, 1, 1, 1});
  bool serves_ = false, running_ = false;
  int tasks_left_ = 0;
  int64_t next_ns_ = 0;
  std::unique_ptr<World> world_;
};

// Where none waits, 86 of 150 begin between two tasks of the request, which takes as much longer.
TEST(ModelLifeTest, AWarmUpTaskBeginsWhereItsDeviceHasNothingElseToDo) {
  OneAtATime load;
  load.Load();
  EXPECT_LE(load.between_tasks, 1) << "the first one does not wait";
  EXPECT_GT(load.alone, 100);
}

// Whether a model ends to load beside one that is flooded. Else its device dies in the end, and so does the load.
class FloodedLoad {
 public:
  FloodedLoad() {
    WorldOptions options;
    options.device = [](SimDeviceOptions& device) {
      device.task_ns = [](const BatchedTask& task) {
        return task.model->model().id == ModelId(1) ? int64_t{1000} : int64_t{0};
      };
    };
    options.scheduler.meanwhile = [this] {
      if (++looks_ == kMostLooks) world_->device(0).Fail(absl::InternalError("it does not end"));
      return world_->Step();
    };
    world_ = std::make_unique<World>(options);
    const auto flooded = MakeModel(ModelId(1), {1, 1, 1, 1, 1});
    world_->Add(flooded);
    for (uint64_t i = 0; i < 1000; ++i) world_->Submit(world_->Sentence(flooded, 50), i);
  }
  absl::Status Load(const std::shared_ptr<const Model>& model) {
    looks_ = 0;
    return world_->TryAdd(model);
  }
  void Step() { world_->Step(); }

 private:
  static constexpr int kMostLooks = 10'000;
  int looks_ = 0;
  std::unique_ptr<World> world_;
};

// Turns are counted from 1 at each load: that the load before it had its first one is nothing to it.
TEST(ModelLifeTest, ALoadBesideNeighboursBeginsWhateverTheLastOneEndedWith) {
  FloodedLoad flood;
  for (int id = 2; id < 14; ++id) {
    const auto model = MakeModel(ModelId(id));
    model->types.resize(1);  // one task: in the first turn, if the device is not free before
    ASSERT_EQ(flood.Load(model), absl::OkStatus()) << id;
    for (int i = 0; i < id % 4; ++i) flood.Step();
  }
}

// A clock may be too coarse to tell.
TEST(ModelLifeTest, ALoadBesideNeighboursEndsThoughItsTasksTakeNoTime) {
  FloodedLoad flood;
  EXPECT_EQ(flood.Load(MakeModel(ModelId(2))), absl::OkStatus());
}

TEST(ModelLifeTest, ADeviceThatHangsInAWarmUpIsGivenUpAndTheOtherOneServes) {
  World* world = nullptr;
  int looks = 0;
  WorldOptions options;
  options.devices = 2;
  options.calibrate = true;
  options.cost = {.task_ns = 20'000, .node_ns = 100};
  options.device = [](SimDeviceOptions& device) { device.runs = SimRuns::kInTime; };
  options.scheduler.task_time_limit = absl::Microseconds(200);
  options.scheduler.meanwhile = [&] {
    if (++looks == 100'000) world->device(0).Fail(absl::InternalError("nobody gave it up"));
    if (!world->Step()) world->time().AdvanceTo(world->time().now_ns() + 50'000);
    return true;
  };
  World two(options);
  world = &two;
  two.device(0).Hang();
  const auto model = MakeModel(ModelId(1), {0, 4, 0, 0, 0});
  ASSERT_EQ(two.TryAdd(model), absl::OkStatus());
  const std::string health(two.scheduler().DeviceHealth().message());
  EXPECT_NE(health.find("device sim:0: hung: task "), std::string::npos) << health;
  ExpectServed(two, model);
}

// One memory is twenty times slower a node: what is a full batch there would be a long one.
TEST(ModelLifeTest, EachMemoryRunsItsOwnFullBatch) {
  SimTime time;
  VirtualClock clock(time);
  DeviceSet set;
  for (const int64_t node_ns : {200, 4000}) {
    auto memory = std::make_unique<SimMemory>();
    SimDeviceOptions device;
    device.cost = {.task_ns = 20'000, .node_ns = node_ns};
    set.devices.push_back(std::make_unique<SimDevice>(device, *memory, time));
    set.memories.push_back(std::move(memory));
  }
  SchedulerOptions options;
  options.threads = false;
  options.max_requests = 64;
  options.row_budget_bytes = 1 << 20;
  const auto scheduler = *Scheduler::Create(options, std::move(set), clock);
  const auto model = MakeModel(ModelId(1), {0, 0, 0, 0, 0});
  ASSERT_TRUE(scheduler->AddModel(model, nullptr).ok());
  const auto measured = scheduler->Calibration(ModelId(1));
  ASSERT_EQ(measured.size(), 10u);
  EXPECT_EQ(measured[0].memory, 0);
  EXPECT_EQ(measured[0].max_batch, 512);
  EXPECT_EQ(measured[5].memory, 1);
  EXPECT_EQ(measured[5].max_batch, 96);
  EXPECT_EQ(measured[5].points.back().task_ns, 20'000 + 4000 * measured[5].points.back().batch);
}

TEST(ModelLifeTest, ModelsComeAndGoMoreOftenThanThereAreLanes) {
  World world;
  for (int id = 0; id < 200; ++id) {
    const auto model = MakeModel(ModelId(id));
    world.Add(model);
    ExpectServed(world, model);
    const absl::Status removed = world.Remove(ModelId(id));
    ASSERT_TRUE(removed.ok()) << removed;
  }
}

TEST(ModelLifeTest, OneModelMoreThanThereAreLanesIsRefusedAndTheOthersServe) {
  WorldOptions options;
  options.scheduler.max_requests = 64;
  World world(options);
  for (int id = 0; id <= kMostModels; ++id) world.Add(MakeModel(ModelId(id)));
  const auto one_more = MakeModel(ModelId(kMostModels + 1));
  const absl::Status full = world.TryAdd(one_more);
  EXPECT_EQ(full, absl::ResourceExhaustedError(
                      "257 model versions are loaded; \"model257\" finds no lane"));
  ASSERT_TRUE(world.Remove(ModelId(5)).ok());
  world.Add(one_more);
  ExpectServed(world, one_more);
}

TEST(ModelLifeTest, WhatALaneCountedIsToldOnceWhenItsLastRequestHasLeft) {
  std::vector<LaneStats> ended;
  WorldOptions options;
  options.scheduler.lane_ended = [&](const LaneStats& lane) { ended.push_back(lane); };
  World world(options);
  const auto model = MakeModel(ModelId(1)), other = MakeModel(ModelId(2));
  world.Add(model);
  world.Add(other);
  ExpectServed(world, model);
  uint64_t before = 0;
  for (const LaneStats& lane : world.scheduler().stats().Lanes()) {
    for (const CellTypeStats& type : lane.types)
      before += lane.model == ModelId(1) ? type.cells : 0;
  }
  EXPECT_TRUE(ended.empty());
  world.Submit(world.Sentence(model, 10), 1);  // it leaves while the lane closes
  ASSERT_TRUE(world.Remove(ModelId(1)).ok());
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].model, ModelId(1));
  EXPECT_EQ(ended[0].running_requests, 0);
  uint64_t cells = 0;
  for (const CellTypeStats& type : ended[0].types) cells += type.cells;
  EXPECT_GE(cells, before + 10);
  ASSERT_TRUE(world.Remove(ModelId(2)).ok());
  EXPECT_EQ(ended.size(), 2u);
}

// A request that has long to run: 4,000 tasks of a microsecond.
TEST(ModelLifeTest, ARemovedModelsRequestsRunOnForAsLongAsTheLimitSaysAndNoLonger) {
  for (const int limit_us : {2000, 20'000}) {
    WorldOptions options;
    options.scheduler.unload_limit = absl::Microseconds(limit_us);
    options.scheduler.row_budget_bytes = 1 << 22;
    World world(options);
    const auto model = MakeModel(ModelId(1));
    world.Add(model);
    world.Submit(world.Sentence(model, 4000), 1);
    world.Submit(world.Sentence(model, 10), 2);
    ASSERT_TRUE(world.Remove(ModelId(1)).ok());
    int ok = 0, unloaded = 0;
    for (const auto& done : world.Finished()) {
      ok += done->status.ok() ? 1 : 0;
      unloaded += done->status == absl::UnavailableError("the model version was unloaded") ? 1 : 0;
    }
    EXPECT_EQ(ok, limit_us > 4000 ? 2 : 1);
    EXPECT_EQ(unloaded, limit_us > 4000 ? 0 : 1);
    world.ExpectClean();
  }
}

// Left alone, it would be done: nobody dies, and everybody steps. (StopDuringALoadEndsBoth is content with that.)
TEST(ModelLifeTest, AStopGivesUpTheLoadThatIsUnderWay) {
  const auto serving = MakeModel(ModelId(1)), late = MakeModel(ModelId(2), {0, 0, 0, 0, 0});
  World* world = nullptr;  // while `late` is loaded
  std::thread stopper;
  bool called = false;
  WorldOptions options;
  options.calibrate = true;
  options.scheduler.meanwhile = [&] {
    Scheduler& scheduler = world->scheduler();
    if (!std::exchange(called, true)) {
      stopper = std::thread([&] { scheduler.Stop(); });
      // It waits for the load. That it was heard is seen at the door, which takes thousands before it is full.
      for (bool taken = true; taken;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        std::unique_ptr<Request> request = world->Sentence(serving, 1);
        taken = scheduler.Submit(request).has_value();
      }
    }
    const bool managed = scheduler.StepManager();
    return scheduler.StepWorker(0) || managed;
  };
  World loading(options);
  called = true;  // not yet
  world = &loading;
  loading.Add(serving);
  called = false;
  EXPECT_EQ(loading.TryAdd(late), absl::UnavailableError("the scheduler is stopping"));
  stopper.join();
}

// With the scheduler's threads: who hangs here does not end.
class ThreadedLifeTest : public ::testing::Test {
 protected:
  static WorldOptions Threaded(int64_t fails_after_tasks = -1) {
    WorldOptions options;
    options.devices = 2;
    options.threads = true;
    options.calibrate = true;
    options.scheduler.batch_limit = 8;
    options.device = [=](SimDeviceOptions& device) {
      device.fails_after_tasks = fails_after_tasks;
    };
    return options;
  }
};

// For the thread sanitizer, too: what readers see of a lane is theirs, whenever it goes.
TEST_F(ThreadedLifeTest, ReadersNeverMeetALaneThatIsGone) {
  World world(Threaded());
  std::atomic<bool> over = false;
  std::atomic<int64_t> seen = 0;
  std::vector<std::thread> readers;
  for (int r = 0; r < 3; ++r) {
    readers.emplace_back([&] {
      while (!over) {
        for (const CellTypeCalibration& c : world.scheduler().Calibration(ModelId(1))) {
          seen += c.max_batch > 0 && !c.points.empty() ? 1 : 0;
        }
        for (const int32_t rows : world.scheduler().MaxRowsPerRequest(ModelId(1))) seen += rows > 0;
        for (const LaneStats& lane : world.scheduler().stats().Lanes()) seen += lane.rows_total > 0;
      }
    });
  }
  const auto model = MakeModel(ModelId(1), {0, 0, 0, 0, 0});
  for (int i = 0; i < 20; ++i) {
    world.Add(model);
    const int64_t before = seen;
    while (seen == before) std::this_thread::yield();
    ASSERT_TRUE(world.Remove(ModelId(1)).ok());
  }
  over = true;
  for (std::thread& reader : readers) reader.join();
}

TEST_F(ThreadedLifeTest, StopDuringALoadEndsBoth) {
  for (int round = 0; round < 15; ++round) {
    World world(Threaded());
    std::thread loader([&] {
      for (int id = 1; id < 8; ++id) {
        const absl::Status added = world.TryAdd(MakeModel(ModelId(id), {0, 0, 0, 0, 0}));
        EXPECT_TRUE(added.ok() || added == absl::UnavailableError("the scheduler is stopping"))
            << added;
      }
    });
    for (int i = 0; i < 100 * round; ++i) std::this_thread::yield();
    world.scheduler().Stop();
    loader.join();
  }
}

TEST_F(ThreadedLifeTest, AModelIsRemovedAlsoAfterTheStop) {
  World world(Threaded());
  world.Add(MakeModel(ModelId(1)));
  world.scheduler().Stop();
  EXPECT_TRUE(world.Remove(ModelId(1)).ok());
  EXPECT_EQ(world.TryAdd(MakeModel(ModelId(2))).code(), absl::StatusCode::kUnavailable);
}

// Both devices die by themselves, somewhere between the load and the stop.
TEST_F(ThreadedLifeTest, WhateverDiesAndWhenLoadRemoveAndStopReturnAndEveryRequestIsAnswered) {
  for (int64_t tasks = 0; tasks < 300; tasks += 7) {
    World world(Threaded(tasks));
    const auto model = MakeModel(ModelId(1), {0, 0, 0, 0, 0});
    const absl::Status added = world.TryAdd(model);
    EXPECT_TRUE(added.ok() || absl::IsUnavailable(added)) << added;
    int submitted = 0, answered = 0;
    while (added.ok() && submitted < 40) world.Submit(world.Tree(model, 9), submitted++);
    if (tasks % 2 == 0 && added.ok()) {
      EXPECT_TRUE(world.Remove(ModelId(1)).ok());
    }
    world.scheduler().Stop();
    for (; answered < submitted; ++answered) world.WaitForOne();
    EXPECT_TRUE(world.Finished().empty());
  }
}

}  // namespace
}  // namespace cellbatch
