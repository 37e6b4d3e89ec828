// Bugs that are planted in the kernels of CUDA devices, and how each of them shows on emulated GPUs: what would find them if they came
// by themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cells/check.h"
#include "cells/device/cuda/cuda_device.h"
#include "cells/device/cuda/cuda_model.h"
#include "cells/device/cuda/task_slots.h"
#include "tests/conformance/devices.h"
#include "tests/conformance/task_bench.h"
#include "tests/cuda_emulator/driver/emulated_gpus.h"
#include "tests/testing/builders.h"

namespace cellbatch::conformance {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int32_t kD = 13, kH = 70;  // a product of several pieces
// Too few for what a load tries, so that tasks are the first to meet a bug; and so many that it tries them.
constexpr int32_t kUntried = 4, kTried = 30;
constexpr ColumnId kHidden{0};

// `what` is `instead`, in whichever text it stands.
struct Planted {
  std::string what, instead;
  Fp32By fp32 = Fp32By::kFma;  // for whose kernels it is
};

class PlantedTest : public ::testing::Test {
 protected:
  PlantedTest() {
    testing::ModelBuilder builder;
    lstm_ = builder.Add(testing::LstmCell(kD, kH), 1);
    model_ = builder.Build();
    x_ = testing::RandomFloats(int64_t{kTried} * kD, 11);
  }
  ~PlantedTest() override {
    bench_.reset();
    setup_ = {};
    if (emulator_ != nullptr) emulator_->clear_findings();
  }

  // The device, by whose end kernel the signal shows.
  void Plant(const Planted& planted) {
    cuda::CudaOptions options;
    options.host_block_bytes = int64_t{16} << 20;
    options.memory.choose_signal = false;
    options.memory.fp32 = planted.fp32;
    options.memory.queue.signal_by = cuda::SignalBy::kEndKernel;
    options.memory.rewrite = [this, planted](std::string text) {
      for (size_t at = text.find(planted.what); at != std::string::npos;
           at = text.find(planted.what, at + planted.instead.size())) {
        text.replace(at, planted.what.size(), planted.instead);
        ++planted_;
      }
      return text;
    };
    const auto api = emulator::EmulatedApi(1);
    emulator_ = &emulator::LoadedEmulator();
    emulator_->clear_findings();
    auto made = cuda::CudaDevices(api, {0}, options);
    Check(made.ok(), made.status().ToString());
    auto set = std::make_shared<DeviceSet>(*std::move(made));
    setup_.memory = set->memories[0].get();
    setup_.devices = {set->devices[0].get()};
    setup_.alive = std::move(set);
  }
  // Loading tries cells, and may notice itself what is planted.
  void TryToLoad() const {
    RowBudget budget;
    budget.rows.assign(model_->tables.size(), kTried);
    const auto loaded = setup_.memory->Load(*model_, budget);
  }
  void Load(int32_t rows) { bench_ = std::make_unique<TaskBench>(*model_, setup_, rows); }

  // Rows 1 to `nodes` of vectors and states, from the same vectors; the last one's answer.
  void Task(int nodes, std::vector<float>& answer) {
    TaskSpec spec = {.cell = lstm_, .inputs = {{}, {}}};
    for (Row r = 1; r <= nodes; ++r) {
      spec.inputs[0].push_back(r);
      spec.inputs[1].push_back(kZeroRow);
      spec.out.push_back(r);
    }
    BatchedTask* const task = bench_->Task(0, spec);
    bench_->CopyIn(task, testing::FindTable(*model_, "x"), 1, nodes, x_.data());
    answer.assign(kH, std::nanf(""));
    bench_->CopyOut(task, kHidden, nodes, answer.data());
  }
  // Vector `which` of x, brought to row `x_row`, into row `out`.
  BatchedTask* TaskFrom(int which, Row x_row, Row out, std::vector<float>& answer) {
    BatchedTask* const task =
        bench_->Task(0, {.cell = lstm_, .inputs = {{x_row}, {kZeroRow}}, .out = {out}});
    bench_->CopyIn(task, testing::FindTable(*model_, "x"), x_row, 1, x_.data() + which * kD);
    answer.assign(kH, std::nanf(""));
    bench_->CopyOut(task, kHidden, out, answer.data());
    return task;
  }
  // Which shares no row with that of another row, so they go together.
  void TaskOfRow(Row row, std::vector<float>& answer) { TaskFrom(row, row, row, answer); }
  // Tasks of vectors 0 and 1: one by one; together, by hand, on the queue that the device has for itself; as the device gives them.
  struct Pair {
    std::vector<float> apart[2], by_hand[2], given[2];
  };
  Pair RunPair(std::array<Row, 2> x_rows, std::array<Row, 2> out) {
    Pair pair;
    for (size_t k = 0; k < 2; ++k) {
      TaskFrom(static_cast<int>(k), x_rows[k], out[k], pair.apart[k]);
      Check(bench_->Run(0), "a task of a pair");
    }
    cuda::LaunchQueue& queue = static_cast<const cuda::CudaMemory&>(*setup_.memory).queue(0);
    for (size_t k = 0; k < 2; ++k) {
      const BatchedTask* const task =
          TaskFrom(static_cast<int>(k), x_rows[k], out[k], pair.given[k]);
      cuda::FillSlot(*task, 0, queue.NextSlot(static_cast<int>(k)));
    }
    const auto& loaded = static_cast<const cuda::CudaModel&>(bench_->loaded());
    Check(queue.Replay(loaded.graph(0, lstm_, 1, 2)).ok() && queue.WaitForAll().ok(), "a pair");
    const std::vector<std::byte> left = bench_->CopiedOut();
    for (size_t k = 0; k < 2; ++k) {
      pair.by_hand[k].resize(kH);
      std::memcpy(pair.by_hand[k].data(), left.data() + k * kH * sizeof(float), kH * sizeof(float));
    }
    Check(bench_->Run(0), "the pair as the device runs it");
    return pair;
  }
  static auto Finds(const std::string& kernel, const std::string& what) {
    return Contains(AllOf(HasSubstr(kernel + ", block"), HasSubstr(": " + what + ": ")));
  }

  CellTypeId lstm_;
  std::shared_ptr<Model> model_;
  std::vector<float> x_;
  const emulator::EmulatorControl* emulator_ = nullptr;
  int planted_ = 0;
  DeviceSetup setup_;
  std::unique_ptr<TaskBench> bench_;
};

TEST_F(PlantedTest, NothingPlantedNothingFound) {
  Plant({"queue->next = RingPlace", "queue->next = RingPlace"});
  Load(kTried);
  std::vector<float> first, second;
  Task(20, first);
  Task(20, second);
  ASSERT_TRUE(bench_->Run(0));
  EXPECT_FALSE(std::isnan(first[0]));
  EXPECT_EQ(first, second);
  EXPECT_THAT(emulator::EmulatorFindings(), IsEmpty());
  EXPECT_EQ(planted_, 1);
}

// Pieces of a product are read before all of their threads have loaded them.
TEST_F(PlantedTest, AMissingBarrierBehindTheLoadOfAPieceIsAReadOfWhatNobodyWrote) {
  Plant({"__syncthreads();  // all of piece p is there", "  // all of piece p is there"});
  EXPECT_THAT(emulator::EmulatorFindings(), IsEmpty());
  TryToLoad();
  EXPECT_GT(planted_, 0);
  EXPECT_THAT(emulator::EmulatorFindings(), Finds("t0_s0", "not written"));
}

// The ring of pieces is loaded anew while threads still read it.
TEST_F(PlantedTest, AMissingBarrierBeforeTheNextSegmentIsARace) {
  Plant({"__syncthreads();  // whoever read", "  // whoever read"});
  TryToLoad();
  EXPECT_GT(planted_, 0);
  EXPECT_THAT(emulator::EmulatorFindings(), Finds("t0_s0", "race"));
}

TEST_F(PlantedTest, TheSameOnTensorCores) {
  Plant({"__syncthreads();  // all of this piece is there", "// all of this piece is there",
         Fp32By::kTensorCores});
  TryToLoad();
  EXPECT_GT(planted_, 0);
  EXPECT_THAT(emulator::EmulatorFindings(), Finds("t0_s0_n8x16", "not written"));
}

// Steps and end are launched while the kernel before them runs.
TEST_F(PlantedTest, AKernelThatDoesNotWaitForTheOneBeforeItTouchesMemoryTooEarly) {
  Plant({"  GridDependencyWait();", ""});
  TryToLoad();
  EXPECT_GT(planted_, 1);
  EXPECT_THAT(emulator::EmulatorFindings(), Finds("t0_s0", "too early"));
  EXPECT_THAT(emulator::EmulatorFindings(), Finds("cellbatch_end", "too early"));
  EXPECT_THAT(emulator::EmulatorFindings(), Not(Contains(HasSubstr("cellbatch_begin"))));
}

// On Hopper lists are read before the wait, too, but not right behind the kernel that leaves them.
TEST_F(PlantedTest, SoDoesOneOnHopperRightBehindBegin) {
  model_->precision = Precision::kBf16;
  for (CellType& type : model_->types) type.precision = Precision::kBf16;
  Plant({"a.lists_are_there == 0", "a.lists_are_there == 0"});
  TryToLoad();
  EXPECT_THAT(emulator::EmulatorFindings(), IsEmpty());
  Plant({"a.lists_are_there == 0", "false"});
  TryToLoad();
  EXPECT_GT(planted_, 0);
  EXPECT_THAT(emulator::EmulatorFindings(), Finds("t0_s0_n8x16", "too early"));
}

// On tensor cores weights are loaded before the wait, and nothing else.
TEST_F(PlantedTest, SoDoesOneOnTensorCores) {
  Plant({"  GridDependencyWait();", "", Fp32By::kTensorCores});
  TryToLoad();
  EXPECT_GT(planted_, 1);
  EXPECT_THAT(emulator::EmulatorFindings(), Finds("t0_s0_n8x16", "too early"));
}

TEST_F(PlantedTest, ASignalBeforeTheAnswersAreCopiedOutIsARace) {
  Plant({"atomicAdd(&queue->blocks_done, 1u) != gridDim.x * tasks - 1",
         "atomicAdd(&queue->blocks_done, 1u) != 0"});
  EXPECT_EQ(planted_, 1);
  Load(kUntried);
  EXPECT_THAT(emulator::EmulatorFindings(), IsEmpty());
  std::vector<float> answer;
  Task(kUntried - 1, answer);
  bench_->Run(0);
  bench_->device(0).Abandon();
  EXPECT_THAT(emulator::EmulatorFindings(), Finds("cellbatch_end", "race"));
}

TEST_F(PlantedTest, AGraphThatIsReplayedWithOldCountsLeavesTheSecondTaskUndone) {
  Plant({"queue->next = RingPlace(place, tasks, slots);", ""});
  EXPECT_EQ(planted_, 1);
  Load(kUntried);
  std::vector<float> first, second;
  Task(1, first);
  ASSERT_TRUE(bench_->Run(0));
  Task(1, second);
  ASSERT_TRUE(bench_->Run(0));
  EXPECT_FALSE(std::isnan(first[0]));
  EXPECT_TRUE(std::isnan(second[0])) << "its answer went where the first one's goes";
}

// Of two launches of two tasks each, the second one finds the second task of the first.
TEST_F(PlantedTest, AGraphThatMovesOnByOneOfItsTasksLeavesALaterOneUndone) {
  Plant({"RingPlace(place, tasks, slots);", "RingPlace(place, 1, slots);"});
  EXPECT_EQ(planted_, 1);
  Load(kTried);
  std::vector<float> answers[4];
  for (int pair = 0; pair < 2; ++pair) {
    for (int k = 0; k < 2; ++k) TaskOfRow(1 + k, answers[2 * pair + k]);
    ASSERT_TRUE(bench_->Run(0));
  }
  EXPECT_FALSE(std::isnan(answers[0][0]) || std::isnan(answers[1][0]));
  EXPECT_FALSE(std::isnan(answers[2][0])) << "done as the second of its launch";
  EXPECT_TRUE(std::isnan(answers[3][0]));
}

TEST_F(PlantedTest, ASignalBeforeTheLastTaskOfALaunchIsCopiedOutIsARace) {
  Plant({"gridDim.x * tasks - 1", "gridDim.x - 1"});
  EXPECT_EQ(planted_, 1);
  Load(kUntried);
  EXPECT_THAT(emulator::EmulatorFindings(), IsEmpty());
  std::vector<float> first, second;
  TaskOfRow(1, first);
  TaskOfRow(2, second);
  bench_->Run(0);
  bench_->device(0).Abandon();
  EXPECT_THAT(emulator::EmulatorFindings(), Finds("cellbatch_end", "race"));
}

// What a device would leave that did not look at rows. Task 1 leaves its state in the row that task 0 answers from.
TEST_F(PlantedTest, AnAnswerFromARowThatALaterTaskOfItsLaunchWritesIsWrongAndNotGiven) {
  Plant({"queue->next", "queue->next"});
  Load(kTried);
  const Pair well = RunPair({1, 2}, {3, 4});
  EXPECT_NE(well.apart[0], well.apart[1]) << "of different vectors";
  for (size_t k = 0; k < 2; ++k) EXPECT_EQ(well.by_hand[k], well.apart[k]);
  const Pair meeting = RunPair({1, 2}, {3, 3});
  EXPECT_EQ(meeting.by_hand[0], meeting.apart[1]);
  EXPECT_THAT(emulator::EmulatorFindings(), IsEmpty());
  for (const Pair* pair : {&well, &meeting}) {
    for (size_t k = 0; k < 2; ++k) EXPECT_EQ(pair->given[k], well.apart[k]);
  }
}

// Task 1 brings its vector to the row that task 0 reads, and brings one to itself.
TEST_F(PlantedTest, ARowThatTwoTasksOfALaunchBringIsARaceAndNotBrought) {
  Plant({"queue->next", "queue->next"});
  Load(kTried);
  const Pair meeting = RunPair({1, 1}, {3, 4});
  EXPECT_THAT(emulator::EmulatorFindings(), Finds("t0_s0", "race")) << "who reads what two wrote";
  for (size_t k = 0; k < 2; ++k) EXPECT_EQ(meeting.given[k], meeting.apart[k]);
}

TEST_F(PlantedTest, ALostWakeUpLeavesATaskInProgressAndTheGpuIdle) {
  Plant({"if (signals != 0) StoreForAll(host_signal, signal);", ""});
  EXPECT_EQ(planted_, 1);
  Load(kUntried);
  std::vector<float> answer;
  Task(1, answer);
  ASSERT_EQ(bench_->Enqueue(0), 1);
  const uint64_t before = bench_->device(0).Signal();
  for (int i = 0; i < 200; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    bench_->Advance(0);
  }
  EXPECT_EQ(bench_->device(0).Signal(), before);
  EXPECT_TRUE(bench_->device(0).Health().ok()) << "the worker's limit is who notices";
  const long long launches = emulator_->launches(0);
  bench_->device(0).Abandon();
  EXPECT_EQ(emulator_->launches(0), launches) << "it was idle";
  EXPECT_EQ(bench_->device(0).Signal(), before);
  EXPECT_THAT(emulator::EmulatorFindings(), IsEmpty());
}

}  // namespace
}  // namespace cellbatch::conformance
