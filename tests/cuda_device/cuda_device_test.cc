// Opening GPUs, loading models onto them, tasks of more nodes than a launch has, pinned blocks; and what happens where a GPU, a
// compiler or a kernel fails.
#include "cells/device/cuda/cuda_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cells/check.h"
#include "cells/device/cuda/pinned_blocks.h"
#include "cells/device/cuda/try_cells.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/task_bench.h"
#include "tests/cuda_emulator/driver/emulated_gpus.h"
#include "tests/testing/builders.h"

namespace cellbatch::cuda {
namespace {

using conformance::DeviceSetup;
using conformance::TaskBench;
using conformance::TaskSpec;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int32_t kD = 5, kH = 20, kRows = 4000;
constexpr int64_t kGpuBytes = int64_t{256} << 20;

std::shared_ptr<const CudaApi> Api() { return emulator::EmulatedApi(2, kGpuBytes); }

const emulator::EmulatorControl& Gpus() { return emulator::LoadedEmulator(); }

// By multiply-add: emulated, that is half the time, and numbers are the contract's to try.
CudaOptions Small() {
  CudaOptions options;
  options.memory.fp32 = Fp32By::kFma;
  options.host_block_bytes = int64_t{4} << 20;
  options.task_memory_bytes = int64_t{4} << 20;
  return options;
}

RowBudget Rows(const Model& model, int32_t rows) {
  RowBudget budget;
  budget.rows.assign(model.tables.size(), rows);
  return budget;
}

class CudaDeviceTest : public ::testing::Test {
 protected:
  CudaDeviceTest() {
    Api();
    Gpus().restore();
    Gpus().set_sort(9, 0, 227 << 10);
    Gpus().clear_findings();
  }
  // Nothing of a test stays on a GPU, and nobody did what nobody may do.
  void TearDown() override {
    for (const int gpu : {-1, 0, 1}) EXPECT_EQ(Gpus().live_bytes(gpu), 0) << gpu;
    EXPECT_THAT(emulator::EmulatorFindings(), IsEmpty());
  }

  static DeviceSet Open(const std::vector<int>& ordinals, const CudaOptions& options = Small()) {
    auto set = CudaDevices(Api(), ordinals, options);
    Check(set.ok(), set.status().ToString());
    return *std::move(set);
  }
  static DeviceSetup Setup(DeviceSet opened) {
    const auto set = std::make_shared<DeviceSet>(std::move(opened));
    DeviceSetup setup;
    setup.memory = set->memories[0].get();
    for (const auto& device : set->devices) setup.devices.push_back(device.get());
    setup.alive = set;
    return setup;
  }
};

TEST_F(CudaDeviceTest, EachGpuIsOneMemoryAndTheSameGpuTwiceIsTwoDevicesOnIt) {
  const DeviceSet set = Open({1, 0, 1});
  ASSERT_EQ(set.devices.size(), 3u);
  EXPECT_EQ(set.memories.size(), 2u);
  EXPECT_EQ(set.devices[0]->info().name, "cuda:1");
  EXPECT_EQ(set.devices[1]->info().name, "cuda:0");
  EXPECT_EQ(set.devices[2]->info().name, "cuda:1#1");
  EXPECT_EQ(set.devices[0]->info().memory, set.devices[2]->info().memory);
  EXPECT_NE(set.devices[0]->info().memory, set.devices[1]->info().memory);
  EXPECT_EQ(set.memories[0]->host_blocks(), set.memories[1]->host_blocks());
}

TEST_F(CudaDeviceTest, AGpuThatIsNotThereIsSaidWithThoseThatAre) {
  const auto set = CudaDevices(Api(), std::vector<int>{0, 2}, Small());
  EXPECT_EQ(set.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(set.status().message()),
              AllOf(HasSubstr("cuda:2 is not there"), HasSubstr("cuda:0 (Emulated GPU)")));
}

TEST_F(CudaDeviceTest, WhatDoesNotFitIsRefusedWithBothNumbersAndLeavesNothing) {
  const DeviceSet set = Open({0});
  const auto model = testing::OneCellModel(testing::LstmCell(kD, kH));
  const long long before = Gpus().live_bytes(0);
  const auto loaded = set.memories[0]->Load(*model, Rows(*model, 3'000'000));
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(loaded.status().message()),
              AllOf(HasSubstr("needs "), HasSubstr(" bytes of cuda:0"),
                    HasSubstr(std::to_string(kGpuBytes - before) + " are available")));
  EXPECT_EQ(Gpus().live_bytes(0), before);
}

TEST_F(CudaDeviceTest, APrecisionThatIsNotOfferedIsRefusedByName) {
  const DeviceSet set = Open({0});
  Model model = *testing::OneCellModel(testing::LstmCell(kD, kH));
  model.name = "lstm";
  model.precision = Precision::kW8;
  for (CellType& type : model.types) type.precision = Precision::kW8;
  const auto loaded = set.memories[0]->Load(model, Rows(model, 10));
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(loaded.status().message()),
              HasSubstr("model \"lstm\": precision is W8, a CUDA device computes FP32"));
}

TEST_F(CudaDeviceTest, AWeightForWhichThePrecisionHasNoNumberIsNamed) {
  auto devices = CudaDevices(Api(), {0}, Small());
  ASSERT_TRUE(devices.ok()) << devices.status();
  const std::shared_ptr<Model> model = testing::OneCellModel(testing::LinearCell(8, 32));
  const auto parameters = model->types[0].definition->parameters();
  size_t matrix = 0;
  while (parameters[matrix].shape.rows == 1) ++matrix;
  float& weight = const_cast<float*>(model->types[0].weights[matrix].data.get())[5];
  struct Case {
    Precision precision;
    float held, beyond;
  };
  for (const Case& c : {Case{Precision::kBf16, 0x1.fefffep127f, 0x1.ffp127f},
                        Case{Precision::kTf32, 0x1.ffdffep127f, 0x1.ffep127f}}) {
    SCOPED_TRACE(Name(c.precision));
    model->precision = model->types[0].precision = c.precision;
    weight = c.held;
    EXPECT_TRUE(devices->memories[0]->Load(*model, Rows(*model, 20)).ok());
    weight = c.beyond;
    const auto loaded = devices->memories[0]->Load(*model, Rows(*model, 20));
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(loaded.status().message()),
        HasSubstr(fmt::format("parameter \"{}\": element 5 is {}, for which {} has no number",
                              parameters[matrix].name, c.beyond, Name(c.precision))));
  }
}

TEST_F(CudaDeviceTest, AModelThatLeavesGivesItsMemoryBack) {
  const DeviceSet set = Open({0, 0});
  const auto model = testing::OneCellModel(testing::DecodeCell(kH, 30));
  const long long before[] = {Gpus().live_bytes(0), Gpus().live_bytes(-1)};
  auto loaded = set.memories[0]->Load(*model, Rows(*model, 100));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_GT((*loaded)->weight_bytes(), 30 * kH * 4);
  EXPECT_GT((*loaded)->row_bytes(), 100 * (kH + 30 + 1) * 4);
  EXPECT_GE(Gpus().live_bytes(0) - before[0], (*loaded)->weight_bytes());
  *loaded = nullptr;
  EXPECT_EQ(Gpus().live_bytes(0), before[0]);
  EXPECT_EQ(Gpus().live_bytes(-1), before[1]);
}

// Node i of a task of 1,200 leaves what it leaves in a task of its own; a tree's sums, too.
TEST_F(CudaDeviceTest, ATaskOfMoreNodesThanALaunchLeavesTheSameBits) {
  constexpr int32_t kNodes = 1200;
  testing::ModelBuilder builder;
  const CellTypeId tree = builder.Add(testing::ChildSumCell(kD, kH), 1);
  const auto model = builder.Build();
  const std::vector<float> x = testing::RandomFloats(int64_t{kNodes} * kD, 3);
  TaskBench bench(*model, Setup(Open({0})), kRows);
  // First leaves, then parents of one, two or no leaves; answers of the last task's ends and middle.
  const std::vector<int32_t> asked = {0, 511, 512, 513, 1023, 1024, kNodes - 1};
  std::vector<std::vector<float>> together(asked.size(), std::vector<float>(kH)), alone = together;
  TaskSpec leaves = {.cell = tree, .inputs = {{}, {}}, .sums = {{}, {}}, .out = {}};
  TaskSpec parents = leaves;
  for (Row r = 1; r <= kNodes; ++r) {
    leaves.inputs[0].push_back(r);
    leaves.sums[1].emplace_back();
    leaves.out.push_back(r);
    parents.inputs[0].push_back(r);
    parents.sums[1].push_back(std::vector<Row>{r, 1 + (r * 7) % kNodes});
    parents.sums[1].back().resize(static_cast<size_t>(r % 3));
    parents.out.push_back(kNodes + r);
  }
  BatchedTask* const first = bench.Task(0, leaves);
  bench.CopyIn(first, testing::FindTable(*model, "x"), 1, kNodes, x.data());
  BatchedTask* const second = bench.Task(0, parents);
  for (size_t i = 0; i < asked.size(); ++i) {
    bench.CopyOut(second, ColumnId(0), kNodes + 1 + asked[i], together[i].data());
  }
  ASSERT_TRUE(bench.Run(0));
  EXPECT_GT(second->end_ns, second->start_ns);
  for (size_t i = 0; i < asked.size(); ++i) {
    const auto n = static_cast<size_t>(asked[i]);
    BatchedTask* const one = bench.Task(0, {.cell = tree,
                                            .inputs = {{parents.inputs[0][n]}, {}},
                                            .sums = {{}, {parents.sums[1][n]}},
                                            .out = {2 * kNodes + 1}});
    bench.CopyOut(one, ColumnId(0), 2 * kNodes + 1, alone[i].data());
    ASSERT_TRUE(bench.Run(0));
    EXPECT_EQ(std::memcmp(together[i].data(), alone[i].data(), kH * sizeof(float)), 0) << n;
  }
}

// Of kernels in which a node's place in its block matters.
TEST_F(CudaDeviceTest, AModelWhoseRowsDependOnTheirCompanyIsNotServed) {
  struct Bug {
    Fp32By fp32;
    std::string sum, more;
  };
  for (const Bug& bug :
       {Bug{Fp32By::kFma, "fmaf(value, weight[g], sums[j][of[g]])", " + 1e-5f * j"},
        Bug{Fp32By::kTensorCores, "sums[i] += all", " + 1e-5f * (threadIdx.x % 4)"}}) {
    CudaOptions options = Small();
    options.memory.fp32 = bug.fp32;
    options.memory.rewrite = [&](std::string text) {
      const size_t at = text.find(bug.sum);
      return at == text.npos ? text : text.replace(at, bug.sum.size(), bug.sum + bug.more);
    };
    const DeviceSet set = Open({0}, options);
    const auto model = testing::OneCellModel(testing::LstmCell(kD, kH));
    const auto loaded = set.memories[0]->Load(*model, Rows(*model, 400));
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInternal) << bug.sum;
    EXPECT_THAT(std::string(loaded.status().message()),
                AllOf(HasSubstr("element 0 of column \"h\""), HasSubstr("in a batch of 1 and"),
                      HasSubstr("in one of 7")));
  }
}

// Of the kernel for 9 to 16 nodes alone, between which and the one before it there are fewer nodes than between any others.
TEST_F(CudaDeviceTest, AModelOfWhichOneKernelLeavesOtherBitsIsNotServed) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    SCOPED_TRACE(Name(precision));
    int planted = 0;
    CudaOptions options = Small();
    options.memory.fp32 = Fp32By::kTensorCores;
    options.memory.rewrite = [&](std::string text) {
      constexpr std::string_view kKernel = "_n16x", kSum = " + u] = sum";
      for (size_t at = text.find(kKernel); at != text.npos; at = text.find(kKernel, at)) {
        at = text.find(kSum, at);
        Check(at != text.npos, "a kernel leaves its sums for its tail");
        text.insert(at + kSum.size(), " + 1e-2f");
        ++planted;
      }
      return text;
    };
    const DeviceSet set = Open({0}, options);
    const auto model = testing::OneCellModel(testing::LstmCell(kD, kH));
    model->precision = model->types[0].precision = precision;
    const auto loaded = set.memories[0]->Load(*model, Rows(*model, 400));
    EXPECT_EQ(planted, 1);
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(loaded.status().message()),
                AllOf(HasSubstr("element 0 of column \"h\""), HasSubstr("in a batch of 1 and"),
                      HasSubstr("in one of 16")));
  }
}

// Neither by a kernel that leaves out some of its nodes, nor by one that leaves out all: row after row the same, as nobody wrote any.
TEST_F(CudaDeviceTest, AModelWhoseKernelsLeaveNodesOutIsNotServed) {
  struct Bug {
    Fp32By fp32;
    std::string tail, skip, said;
  };
  const std::string fma = "if (node >= now.num_nodes || unit >=";
  const std::string tensor_cores = "const float* const sum = left";
  for (const Bug& bug :
       {Bug{Fp32By::kFma, fma, "if (node > 6) continue; ", "in one of 150"},
        Bug{Fp32By::kFma, fma, "if (node >= 0) continue; ", "in one of 7"},
        Bug{Fp32By::kTensorCores, tensor_cores, "if (node > 6) continue; ", "in one of 16"}}) {
    SCOPED_TRACE(bug.skip + bug.tail);
    CudaOptions options = Small();
    options.memory.fp32 = bug.fp32;
    options.memory.rewrite = [&](std::string text) {
      for (size_t at = text.find(bug.tail); at != text.npos; at = text.find(bug.tail, at)) {
        text.insert(at, bug.skip);
        at += bug.skip.size() + bug.tail.size();
      }
      return text;
    };
    const DeviceSet set = Open({0}, options);
    const auto model = testing::OneCellModel(testing::LstmCell(kD, kH));
    const auto loaded = set.memories[0]->Load(*model, Rows(*model, 400));
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(loaded.status().message()),
                AllOf(HasSubstr("element 0 of column \"h\""), HasSubstr("and 0xffffffff in"),
                      HasSubstr(bug.said)));
  }
}

// By what their blocks are for: of fp32 on tensor cores, of bf16, and of bf16 on Hopper; all, and what less shared memory leaves.
TEST(TrialBatchesTest, EveryKernelOfEveryStepIsLaunched) {
  const std::vector<std::vector<int>> most_nodes = {
      {0},
      {8, 16, 64, 128, 512},
      {8, 16, 32, 128, 512},
      {8, 16, 32, 64, 128, 256, 512},
      {8, 16, 32, 64, 256, 512},
      {8, 16, 64},
  };
  CellLaunch launch;
  for (const std::vector<int>& of_step : most_nodes) {
    StepLaunch& step = launch.steps.emplace_back();
    for (const int most : of_step) step.shapes.push_back({.most_nodes = most});
  }
  const std::set<int> batches = TrialBatches(launch, 512);
  EXPECT_LE(batches.size(), 9u) << "each is a launch, and emulated a long one";
  for (size_t s = 0; s < launch.steps.size(); ++s) {
    const StepLaunch& step = launch.steps[s];
    std::set<int> met;
    for (const int batch : batches) met.insert(step.ShapeFor(batch).most_nodes);
    EXPECT_THAT(met, ElementsAreArray(most_nodes[s]));
  }
  EXPECT_THAT(TrialBatches(launch, 20), ElementsAre(7, 16, 20))
      << "no more than there are rows for";
}

// Every kernel runs at load. Of what an A100 and an L4 are; a Hopper's blocks may have 227 KiB.
TEST_F(CudaDeviceTest, AModelIsServedByGpusWhoseBlocksHaveLessSharedMemory) {
  struct Sort {
    int major, minor, most_shared;
  };
  for (const Sort& sort : {Sort{8, 0, 163 << 10}, Sort{8, 9, 99 << 10}}) {
    Gpus().set_sort(sort.major, sort.minor, sort.most_shared);
    CudaOptions options = Small();
    options.memory.fp32 = Fp32By::kTensorCores;
    const auto set = CudaDevices(Api(), std::vector<int>{0}, options);
    ASSERT_TRUE(set.ok()) << set.status();
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      SCOPED_TRACE(fmt::format("{} on {}.{}", Name(precision), sort.major, sort.minor));
      const auto model = testing::OneCellModel(testing::LstmCell(kD, kH));
      model->precision = model->types[0].precision = precision;
      const auto loaded = set->memories[0]->Load(*model, Rows(*model, 1200));
      EXPECT_TRUE(loaded.ok()) << loaded.status();
    }
  }
}

TEST_F(CudaDeviceTest, WhatTheCompilerRefusesIsSaidInItsWords) {
  CudaOptions options = Small();
  options.memory.rewrite = [](std::string text) {
    return text.find("t0_s0") == text.npos ? text : text + "\nnonsense;\n";
  };
  const DeviceSet set = Open({0}, options);
  const auto model = testing::OneCellModel(testing::LstmCell(kD, kH));
  const auto loaded = set.memories[0]->Load(*model, Rows(*model, 10));
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(loaded.status().message()),
              AllOf(HasSubstr("nvrtcCompileProgram"), HasSubstr("nonsense")));
}

TEST_F(CudaDeviceTest, ALaunchThatFailsIsToldByHealthAndTheDriversWords) {
  const auto model = testing::OneCellModel(testing::LstmCell(kD, kH));
  const DeviceSetup setup = Setup(Open({0}));
  {
    TaskBench bench(*model, setup, 100);
    Gpus().fail_launch(0, 5);
    for (Row r = 1; r <= 4; ++r) {
      bench.Task(0, {.cell = CellTypeId(0), .inputs = {{0}, {kZeroRow}}, .out = {r}});
    }
    EXPECT_FALSE(bench.Run(0));
    EXPECT_THAT(std::string(bench.device(0).Health().message()),
                AllOf(HasSubstr("cuda:0: "), HasSubstr("CUDA_ERROR_LAUNCH_FAILED")));
    bench.device(0).Abandon();
  }
}

// Every way of signaling is tried by conformance; here, that one of them is chosen where nobody says which.
TEST_F(CudaDeviceTest, AQueueSignalsTheWayThatWasFastest) {
  const DeviceSet set = Open({0});
  const auto& memory = static_cast<const CudaMemory&>(*set.memories[0]);
  const LaunchQueue& queue = memory.queue(0);
  EXPECT_EQ(queue.signal_ns().size(), 3u);
  const auto best = std::min_element(queue.signal_ns().begin(), queue.signal_ns().end());
  EXPECT_EQ(static_cast<int>(queue.options().signal_by), best - queue.signal_ns().begin());
  for (const int64_t ns : queue.signal_ns()) EXPECT_GT(ns, 0);
}

// Tasks of one node each, as launches of kernels: begin, a step for each task, and end.
class TogetherTest : public CudaDeviceTest {
 protected:
  void Open(int tasks_a_launch, int32_t rows = kRows) {
    CudaOptions options = Small();
    options.memory.choose_signal = false;
    options.memory.queue.signal_by = SignalBy::kEndKernel;
    options.memory.queue.tasks_a_launch = tasks_a_launch;
    testing::ModelBuilder builder;
    lstm_ = builder.Add(testing::LstmCell(kD, kH), 1);
    head_ = builder.Add(testing::LinearCell(kH, 3, "h"), 2);
    builder.Connect(head_, "x", lstm_);
    model_ = builder.Build();
    bench_ = std::make_unique<TaskBench>(*model_, Setup(CudaDeviceTest::Open({0}, options)), rows);
    const long long before = Gpus().launches(0);
    Alone();
    ASSERT_TRUE(bench_->Run(0));
    kernels_ = KernelsRun(before + KernelsOf({1}));
  }
  void TearDown() override {
    bench_ = nullptr;
    CudaDeviceTest::TearDown();
  }

  // Each leaves a row of its own, which nobody else names.
  BatchedTask* Alone(CellTypeId cell, int32_t nodes = 1) {
    TaskSpec spec = {.cell = cell, .inputs = {{}}};
    if (cell == lstm_) spec.inputs.emplace_back();
    for (int32_t n = 0; n < nodes; ++n) {
      for (auto& input : spec.inputs) input.push_back(kZeroRow);
      spec.out.push_back(next_row_++);
    }
    return bench_->Task(0, spec);
  }
  BatchedTask* Alone() { return Alone(lstm_); }

  // What runs everything that was made, in launches of so many tasks: a kernel for each step, and two for each launch.
  void ExpectLaunches(const std::vector<int>& tasks) {
    const int64_t launches = device().launches();
    ASSERT_TRUE(bench_->Run(0));
    EXPECT_EQ(device().launches() - launches, std::ssize(tasks));
    kernels_ += KernelsOf(tasks);
    EXPECT_EQ(KernelsRun(kernels_), kernels_);
  }
  // So many, once the last of them, which shows its signal before it is counted, is.
  static long long KernelsRun(long long expected) {
    for (int i = 0; i < 5000 && Gpus().launches(0) < expected; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return Gpus().launches(0);
  }
  const CudaDevice& device() const { return static_cast<const CudaDevice&>(bench_->device(0)); }
  static long long KernelsOf(const std::vector<int>& tasks) {
    return 2 * std::ssize(tasks) + std::accumulate(tasks.begin(), tasks.end(), 0);
  }
  void MakeAndEnqueue(int tasks) {
    for (int i = 0; i < tasks; ++i) Alone();
    ASSERT_EQ(bench_->Enqueue(0), tasks);
  }

  CellTypeId lstm_, head_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<TaskBench> bench_;
  Row next_row_ = 1;
  long long kernels_ = 0;  // that the GPU has run
};

TEST_F(TogetherTest, TasksThatComeTogetherGoTogether) {
  Open(4);
  for (int i = 0; i < 8; ++i) Alone();
  ExpectLaunches({4, 4});
  for (int i = 0; i < 7; ++i) Alone();
  ExpectLaunches({4, 2, 1});
  Alone();
  ExpectLaunches({1});
}

TEST_F(TogetherTest, NoMoreGoTogetherThanTheOptionSays) {
  Open(2);
  for (int i = 0; i < 5; ++i) Alone();
  ExpectLaunches({2, 2, 1});
  Open(1);
  for (int i = 0; i < 3; ++i) Alone();
  ExpectLaunches({1, 1, 1});
  CudaOptions three = Small();
  three.memory.queue.tasks_a_launch = 3;
  const auto set = CudaDevices(Api(), {0}, three);
  EXPECT_EQ(std::string(set.status().message()), "tasks_a_launch is 3, allowed are 1, 2 and 4");
}

// Nobody waits for company, so the first two go alone; the others while these two are in progress.
TEST_F(TogetherTest, TasksAreLaunchedAtOnceUntilTwoLaunchesAreInProgressAndThenKept) {
  Open(4);
  Gpus().hang(0, true);
  for (int i = 0; i < 7; ++i) {
    MakeAndEnqueue(1);
    bench_->Advance(0);
  }
  EXPECT_EQ(Gpus().launches(0), kernels_);
  Gpus().hang(0, false);
  ASSERT_TRUE(bench_->Run(0));
  kernels_ += KernelsOf({1, 1, 4, 1});
  EXPECT_EQ(KernelsRun(kernels_), kernels_);
}

TEST_F(TogetherTest, OnlyTasksOfOneCellTypeThatAreNeitherMeasuredNorLargeGoTogether) {
  Open(4);
  for (const CellTypeId cell : {lstm_, lstm_, head_, head_, lstm_}) Alone(cell);
  ExpectLaunches({2, 2, 1});
  for (int i = 0; i < 4; ++i) Alone()->measured = i == 2;
  ExpectLaunches({2, 1, 1});
  Alone();
  Alone(lstm_, 600);  // two launches
  for (const int32_t nodes : {512, 1, 7, 40}) Alone(lstm_, nodes);
  ExpectLaunches({1, 1, 1, 4});
}

// Each of these reads or answers from rows that the one behind it brings or writes.
TEST_F(TogetherTest, TasksWhoseRowsMeetGoOneByOne) {
  Open(4, 100);
  const std::vector<float> x = testing::RandomFloats(kD, 1);
  for (int i = 0; i < 3; ++i) {
    BatchedTask* const task =
        bench_->Task(0, {.cell = lstm_, .inputs = {{9}, {kZeroRow}}, .out = {20 + i}});
    bench_->CopyIn(task, testing::FindTable(*model_, "x"), 9, 1, x.data());
  }
  ExpectLaunches({1, 1, 1});
  std::vector<float> answers[3];
  for (std::vector<float>& answer : answers) {
    answer.resize(kH);
    BatchedTask* const task =
        bench_->Task(0, {.cell = lstm_, .inputs = {{9}, {kZeroRow}}, .out = {30}});
    bench_->CopyOut(task, ColumnId(0), 30, answer.data());
  }
  ExpectLaunches({1, 1, 1});
  // A chain that nobody asks for anything does.
  for (Row r = 40; r < 44; ++r)
    bench_->Task(0, {.cell = lstm_, .inputs = {{9}, {r}}, .out = {r + 1}});
  ExpectLaunches({4});
}

TEST_F(TogetherTest, AGpuThatFailsWithinALaunchOfSeveralIsToldAndWhatWasKeptIsNotLaunched) {
  Open(4);
  const uint64_t before = bench_->device(0).Signal();
  Gpus().fail_launch(0, 4);  // of the first launch's kernels, the third step
  MakeAndEnqueue(12);
  EXPECT_FALSE(bench_->Run(0));
  EXPECT_THAT(std::string(bench_->device(0).Health().message()),
              HasSubstr("CUDA_ERROR_LAUNCH_FAILED"));
  bench_->device(0).Abandon();
  EXPECT_EQ(bench_->device(0).Signal(), before) << "nothing of that launch counts as done";
  EXPECT_EQ(bench_->Enqueue(0), 0);
}

TEST_F(TogetherTest, ALaunchOfSeveralThatHangsShowsNoSignalAndIsDoneOnceItGoesOn) {
  Open(4);
  const uint64_t before = bench_->device(0).Signal();
  Gpus().hang(0, true);
  MakeAndEnqueue(9);
  for (int i = 0; i < 20; ++i) bench_->Advance(0);
  EXPECT_EQ(bench_->device(0).Signal(), before);
  EXPECT_TRUE(bench_->device(0).Health().ok()) << "the worker's limit is who notices";
  Gpus().hang(0, false);
  bench_->device(0).Abandon();  // what is launched ends, what is kept is never begun
  kernels_ += KernelsOf({4, 4});
  EXPECT_EQ(KernelsRun(kernels_), kernels_);
  EXPECT_EQ(bench_->device(0).Signal(), before + 8);
}

TEST_F(CudaDeviceTest, PinnedBlocksAreAlignedApartAndComeAgain) {
  const auto gpu = GpuContext::Open(Api(), 0);
  ASSERT_TRUE(gpu.ok());
  const auto blocks = PinnedBlocks::Make(*gpu, 1 << 20);
  ASSERT_TRUE(blocks.ok());
  const int64_t all = (*blocks)->free_bytes();
  EXPECT_EQ((*blocks)->Allocate(2 << 20), nullptr) << "more than there is";
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const int64_t bytes = 1 + (i * 37 + t) % 5000;
        std::byte* const block = (*blocks)->Allocate(bytes);
        ASSERT_NE(block, nullptr);
        ASSERT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
        std::memset(block, t, static_cast<size_t>(bytes));
        for (int64_t b = 0; b < bytes; ++b) ASSERT_EQ(block[b], static_cast<std::byte>(t));
        (*blocks)->Free(block, bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ((*blocks)->free_bytes(), all);
}

}  // namespace
}  // namespace cellbatch::cuda
