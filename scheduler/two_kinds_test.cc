// Claims about a scheduler whose devices are of two kinds: a model runs on those that it lives on, and what becomes of one kind
// is nothing to the other's models.
#include <map>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using namespace scheduler_testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr DeviceKinds kCpus{.cpu = true, .gpu = false}, kGpus{.cpu = false, .gpu = true};

std::shared_ptr<Model> Living(int64_t id, DeviceKinds on) {
  std::shared_ptr<Model> model = MakeModel(ModelId(id));
  model->devices = on;
  return model;
}

// Which devices ran tasks of which models, those that warm them up, too.
using Ran = std::map<int64_t, std::set<std::string>>;

WorldOptions OfTwoKinds(int devices, Ran* ran = nullptr) {
  WorldOptions options;
  options.devices = devices;
  options.kinds = {DeviceKind::kCpu, DeviceKind::kGpu};
  options.cost = {.task_ns = 1000, .node_ns = 50};
  if (ran != nullptr) {
    options.device = [ran](SimDeviceOptions& device) {
      device.task_ns = [ran, name = device.name](const BatchedTask& task) {
        (*ran)[task.model->model().id.value()].insert(name);
        return 1000 + 50 * int64_t{task.num_nodes};
      };
    };
  }
  return options;
}

std::vector<std::byte> BytesOf(const Request& request) {
  const auto bytes = request.graph.tensors()[0].bytes;
  return {bytes.begin(), bytes.end()};
}

// The answers, by tag, to requests that are drawn, while who steps is drawn, too.
std::map<uint64_t, std::vector<std::byte>> Answers(
    World& world, const std::vector<std::shared_ptr<const Model>>& models, uint64_t seed) {
  std::mt19937_64 requests(seed), steps(seed + 1);
  std::map<uint64_t, std::vector<std::byte>> answers;
  const auto take = [&] {
    for (const auto& request : world.Finished()) {
      EXPECT_TRUE(request->status.ok()) << request->status;
      EXPECT_TRUE(answers.emplace(request->tag, BytesOf(*request)).second);
    }
  };
  for (uint64_t tag = 0; tag < 400; ++tag) {
    const auto& model = models[requests() % models.size()];
    const auto length = 1 + static_cast<int32_t>(requests() % 20);
    world.Submit(requests() % 2 == 0 ? world.Sentence(model, length) : world.Tree(model, length),
                 tag);
    for (uint64_t n = steps() % 4; n > 0; --n) world.Step();
    EXPECT_TRUE(world.scheduler().CheckInvariants().ok()) << world.scheduler().CheckInvariants();
    take();
  }
  world.Run();
  take();
  world.ExpectClean();
  return answers;
}

class TwoKindsTest : public ::testing::TestWithParam<Stealing> {};

TEST_P(TwoKindsTest, NoTaskOfAModelRunsWhereItDoesNotLiveAndAnswersAreThoseOfOneKind) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    Ran ran;
    WorldOptions options = OfTwoKinds(/*devices=*/4, &ran);
    options.scheduler.stealing = GetParam();
    World world(options);
    const std::vector<std::shared_ptr<const Model>> models = {Living(1, kCpus), Living(2, kGpus),
                                                              Living(3, {})};
    for (const auto& model : models) world.Add(model);
    const auto answers = Answers(world, models, seed);
    EXPECT_THAT(ran[1], ElementsAre("sim:0", "sim:2"));
    EXPECT_THAT(ran[2], ElementsAre("sim:1", "sim:3"));
    EXPECT_THAT(ran[3], ElementsAre("sim:0", "sim:1", "sim:2", "sim:3"));

    WorldOptions one_kind;
    one_kind.devices = 2;
    World alone(one_kind);
    for (const auto& model : models) {
      if (model->devices.cpu) alone.Add(model);
    }
    alone.Add(Living(2, {}));
    EXPECT_EQ(answers.size(), 400u);
    EXPECT_EQ(answers, Answers(alone, models, seed));
  }
}

INSTANTIATE_TEST_SUITE_P(Stealing, TwoKindsTest,
                         ::testing::Values(Stealing::kWhenIdle, Stealing::kAlways,
                                           Stealing::kNever));

TEST(TwoKindsLossTest, WhenOneKindIsLostItsModelsSaySoAndTheOthersGoOn) {
  World world(OfTwoKinds(/*devices=*/2));
  const auto cpu = Living(1, kCpus), gpu = Living(2, kGpus), both = Living(3, {});
  const std::vector<std::shared_ptr<const Model>> models = {cpu, gpu, both};
  for (const auto& model : models) world.Add(model);
  // More than join: some wait in their lines.
  for (uint64_t i = 0; i < 300; ++i) world.Submit(world.Sentence(models[i % 3], 9), i % 3);
  for (int i = 0; i < 10; ++i) world.Step();
  world.device(1).Fail(absl::InternalError("smoke"));
  world.Run();
  const std::string lost = "a device failed: device sim:1: smoke";
  int answered[3] = {0, 0, 0}, failed[3] = {0, 0, 0};
  for (const auto& request : world.Finished()) {
    ++answered[request->tag];
    if (request->status.ok()) continue;
    ++failed[request->tag];
    EXPECT_EQ(request->status, absl::InternalError(lost));
  }
  EXPECT_THAT(answered, ElementsAre(100, 100, 100));
  EXPECT_EQ(failed[0], 0);
  EXPECT_GT(failed[1], 80);
  EXPECT_LT(failed[2], 50) << "what waits goes to the other kind";

  world.Submit(world.Sentence(gpu, 3), 1);
  world.Step();
  EXPECT_EQ(world.TheOne()->status, absl::InternalError(lost));
  for (const auto& model : {cpu, both}) {
    world.Submit(world.Sentence(model, 3), 0);
    world.Run();
    EXPECT_TRUE(world.TheOne()->status.ok());
  }
  EXPECT_TRUE(world.scheduler().any_device_left());
  EXPECT_EQ(world.scheduler().stats().Devices()[0].failure, "");
  EXPECT_EQ(world.scheduler().stats().Devices()[1].failure, "smoke");
  EXPECT_EQ(world.TryAdd(Living(4, kGpus)),
            absl::UnavailableError("model \"model4\" is not served: no device is left: "
                                   "device sim:1: smoke"));
  world.Add(Living(5, kCpus));
  world.ExpectClean();

  world.device(0).Fail(absl::InternalError("ash"));
  world.Run();
  world.Submit(world.Sentence(cpu, 3), 0);
  world.Run();
  EXPECT_EQ(world.TheOne()->status, absl::InternalError("a device failed: device sim:0: ash"));
  world.Submit(world.Sentence(gpu, 3), 1);
  world.Run();
  EXPECT_EQ(world.TheOne()->status, absl::InternalError(lost)) << "its own kind's loss is told";
  EXPECT_FALSE(world.scheduler().any_device_left());
  EXPECT_TRUE(world.Remove(ModelId(1)).ok());
  EXPECT_TRUE(world.Remove(ModelId(2)).ok());
  world.ExpectClean();
}

TEST(TwoKindsLossTest, AModelWhoseKindIsLostWhileItWarmsIsNotServedAndItsNeighbourIs) {
  WorldOptions options = OfTwoKinds(/*devices=*/2);
  options.calibrate = true;
  options.device = [](SimDeviceOptions& device) {
    if (device.name == "sim:1") device.fails_after_tasks = 20;
  };
  World world(options);
  EXPECT_THAT(std::string(world.TryAdd(Living(1, kGpus)).message()),
              HasSubstr("model \"model1\" is not served: no device is left: device sim:1: "));
  const auto cpu = Living(2, kCpus), both = Living(3, {});
  world.Add(cpu);
  world.Add(both);
  for (const auto& model : {cpu, both}) {
    world.Submit(world.Sentence(model, 3), 0);
    world.Run();
    EXPECT_TRUE(world.TheOne()->status.ok());
  }
}

TEST(TwoKindsTest, AModelOfAKindThatIsNotThereIsRefusedByName) {
  WorldOptions options;
  options.devices = 2;
  World world(options);
  EXPECT_EQ(
      world.TryAdd(Living(1, kGpus)),
      absl::FailedPreconditionError("model \"model1\" lives on GPU, the devices are sim:0, sim:1"));
}

TEST(TwoKindsTest, RowsTimesAndLimitsAreThoseOfTheModelsOwnMemories) {
  WorldOptions options = OfTwoKinds(/*devices=*/2);
  options.calibrate = true;
  World world(options);
  world.Add(Living(1, kCpus));
  world.Add(Living(2, kGpus));
  world.Add(Living(3, {}));
  const auto memories = [&](int64_t model) {
    std::set<int> measured;
    for (const CellTypeCalibration& c : world.scheduler().Calibration(ModelId(model))) {
      EXPECT_FALSE(c.points.empty());
      EXPECT_GT(c.max_batch, 0);
      measured.insert(c.memory);
    }
    return measured;
  };
  EXPECT_THAT(memories(1), ElementsAre(0));
  EXPECT_THAT(memories(2), ElementsAre(1));
  EXPECT_THAT(memories(3), ElementsAre(0, 1));
  std::map<int64_t, int64_t> rows;
  for (const LaneStats& lane : world.scheduler().stats().Lanes()) {
    rows[lane.model.value()] = lane.rows_total;
  }
  EXPECT_GT(rows[1], 0);
  EXPECT_EQ(rows[1], rows[2]);
  EXPECT_EQ(rows[3], 2 * rows[1]);
  EXPECT_EQ(world.memory(0).loaded(ModelId(2)), nullptr);
  EXPECT_EQ(world.memory(1).loaded(ModelId(1)), nullptr);
  EXPECT_EQ(world.scheduler().MaxRowsPerRequest(ModelId(1)),
            world.scheduler().MaxRowsPerRequest(ModelId(3)));
}

// A CPU reads and writes requests' own tensors, whatever GPUs beside it need.
TEST(TwoKindsTest, OnlyRequestsOfTheKindThatNeedsThemTakeHostBlocks) {
  WorldOptions options = OfTwoKinds(/*devices=*/2);
  options.host_blocks = std::make_shared<SimHostBlocks>();
  World world(options);
  const auto cpu = Living(1, kCpus), gpu = Living(2, kGpus), both = Living(3, {});
  for (const auto& model : {cpu, gpu, both}) world.Add(model);
  world.Submit(world.Sentence(cpu, 5), 1);
  EXPECT_EQ(options.host_blocks->bytes_in_use(), 0);
  for (const auto& model : {gpu, both}) {
    const int64_t before = options.host_blocks->bytes_in_use();
    world.Submit(world.Sentence(model, 5), 2);
    EXPECT_GT(options.host_blocks->bytes_in_use(), before);
  }
  world.Run();
  for (const auto& request : world.Finished()) EXPECT_TRUE(request->status.ok());
  EXPECT_EQ(options.host_blocks->bytes_in_use(), 0);
  world.ExpectClean();
}

// The time that a device was busy says nothing of what is owed on another one: one model had the CPU to itself, two shared the
// GPU, and each of them had half as much. Who wakes there begins where these are.
TEST(TwoKindsTest, AModelThatWakesBeginsWhereItsOwnDevicesAre) {
  WorldOptions options = OfTwoKinds(/*devices=*/2);
  options.scheduler.max_requests = 1 << 12;
  World world(options);
  std::vector<std::shared_ptr<const Model>> models = {Living(1, kCpus), Living(2, kGpus),
                                                      Living(3, kGpus), Living(4, kGpus)};
  for (const auto& model : models) world.Add(model);
  std::vector<int> in_flight(models.size(), 0);
  const auto run = [&](size_t who, int steps) {
    for (int i = 0; i < steps; ++i) {
      for (size_t m = 0; m < who; ++m) {
        for (; in_flight[m] < 30; ++in_flight[m]) world.Submit(world.Sentence(models[m], 20), m);
      }
      world.Step();
      for (const auto& request : world.Finished()) --in_flight[request->tag];
    }
  };
  const auto device_ns = [&] {
    std::map<int64_t, int64_t> ns;
    for (const LaneStats& lane : world.scheduler().stats().Lanes()) {
      ns[lane.model.value()] = lane.device_ns;
    }
    return ns;
  };
  run(/*who=*/3, 4000);
  auto before = device_ns();
  EXPECT_GT(before[1], 3 * before[2] / 2);
  run(/*who=*/4, 1000);
  auto after = device_ns();
  const auto had = [&](int64_t model) { return static_cast<double>(after[model] - before[model]); };
  const double all = had(2) + had(3) + had(4);
  for (const int64_t model : {2, 3, 4}) {
    EXPECT_GT(had(model) / all, 0.28) << model;
    EXPECT_LT(had(model) / all, 0.39) << model;
  }
}

// Has no device, and keeps what it is told to expect.
class ListeningMemory final : public Memory {
 public:
  explicit ListeningMemory(std::vector<std::string>& expected) : expected_(expected) {}
  DeviceKind kind() const override { return DeviceKind::kGpu; }
  absl::StatusOr<std::unique_ptr<LoadedModel>> Load(const Model&, const RowBudget&) override {
    return absl::UnimplementedError("it has no device");
  }
  void Expect(absl::Span<const Model* const> models) override {
    for (const Model* model : models) expected_.push_back(model->name);
  }

 private:
  std::vector<std::string>& expected_;
};

TEST(TwoKindsTest, AMemoryExpectsTheModelsThatWillLiveThere) {
  std::vector<std::string> expected;
  SimTime time;
  const VirtualClock clock(time);
  DeviceSet set;
  set.memories.push_back(std::make_unique<SimMemory>());
  set.memories.push_back(std::make_unique<ListeningMemory>(expected));
  set.devices.push_back(std::make_unique<SimDevice>(
      SimDeviceOptions(), static_cast<SimMemory&>(*set.memories[0]), time));
  SchedulerOptions options;
  options.threads = false;
  options.max_requests = 64;
  auto scheduler = Scheduler::Create(options, std::move(set), clock);
  ASSERT_TRUE(scheduler.ok()) << scheduler.status();
  const auto cpu = Living(1, kCpus), gpu = Living(2, kGpus), both = Living(3, {});
  (*scheduler)->ExpectModels({cpu.get(), gpu.get(), both.get()});
  EXPECT_THAT(expected, ElementsAre("model2", "model3"));
}

}  // namespace
}  // namespace cellbatch
