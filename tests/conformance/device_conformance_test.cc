// The contract of cells/device/device.h and memory.h, point by point, for every device there is.

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>

#include "tests/conformance/devices.h"
#include "tests/conformance/task_bench.h"
#include "tests/testing/allocation_count.h"
#include "tests/testing/builders.h"

namespace cellbatch::conformance {
namespace {

using testing::FindTable;

constexpr int32_t kD = 13, kH = 37, kV = 50;
constexpr int32_t kRows = 2048;
constexpr ColumnId kHidden{0}, kState{1}, kWord{0};

// Simulated rows are any bits, so answers are compared as such: a NaN is not itself.
std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

// An LSTM over vectors and one over tokens on one table, a head, a decoder, and a tree cell.
class DeviceTest : public ::testing::TestWithParam<Kind> {
 protected:
  DeviceTest() : setup(GetParam().make()) {
    testing::ModelBuilder builder;
    lstm = builder.Add(testing::LstmCell(kD, kH), 1);
    token_lstm = builder.Add(testing::TokenLstmCell(kV, 9, kH), 2);
    head = builder.Add(testing::LinearCell(kH, 5, "h"), 3);
    decode = builder.Add(testing::DecodeCell(kH, kV), 4);
    child_sum = builder.Add(testing::ChildSumCell(kD, kH), 5);
    builder.Connect(head, "x", lstm);
    builder.Connect(decode, "x", lstm);
    model = builder.Build();
    x = testing::RandomFloats(int64_t{kRows} * kD, 11);
    bench = std::make_unique<TaskBench>(*model, setup, kRows);
  }

  void TearDown() override {
    if (!setup.violations) return;
    for (const std::string& what : setup.violations()) ADD_FAILURE() << what;
  }

  // Copies `count` vectors of x, from vector `first` on, to rows `row` and following, with this task.
  void BringVectors(BatchedTask* task, Row row, int32_t count, int32_t first = 0) {
    bench->CopyIn(task, FindTable(*model, "x"), row, count, x.data() + int64_t{first} * kD);
  }
  // One LSTM node: x row, state row, output row.
  BatchedTask* Step(Row x_row, Row before, Row out, int device = 0) {
    return bench->Task(device, {.cell = lstm, .inputs = {{x_row}, {before}}, .out = {out}});
  }

  DeviceSetup setup;
  std::shared_ptr<Model> model;
  CellTypeId lstm, token_lstm, head, decode, child_sum;
  std::vector<float> x;
  std::unique_ptr<TaskBench> bench;
};

std::string KindName(const ::testing::TestParamInfo<Kind>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Every, DeviceTest, ::testing::ValuesIn(ContractKinds()), KindName);
// Of every arithmetic that a kind may have.
class DeviceBitsTest : public DeviceTest {};
INSTANTIATE_TEST_SUITE_P(Every, DeviceBitsTest, ::testing::ValuesIn(AllKinds()), KindName);

// What only several devices on one memory, or a device that can be broken, can show.
class DevicePairTest : public DeviceTest {};
INSTANTIATE_TEST_SUITE_P(Every, DevicePairTest, ::testing::ValuesIn(PairKinds()), KindName);
class BreakableDeviceTest : public DeviceTest {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BreakableDeviceTest);  // real GPUs are not broken
INSTANTIATE_TEST_SUITE_P(Every, BreakableDeviceTest, ::testing::ValuesIn(BreakableKinds()),
                         KindName);

// Every test above and below runs for the kinds it is meant for, and for no fewer.
TEST_P(DeviceTest, AKindIsWhatItSaysItIs) {
  EXPECT_EQ(static_cast<int>(setup.devices.size()), GetParam().num_devices);
  EXPECT_EQ(setup.fail != nullptr, GetParam().breaks);
}

TEST_P(DeviceTest, NothingIsDoneBeforeAnythingWasEnqueued) {
  const uint64_t last = bench->device(0).Signal();  // wherever it starts
  EXPECT_FALSE(bench->device(0).Advance());
  EXPECT_EQ(bench->device(0).Signal(), last);
  EXPECT_TRUE(bench->device(0).Health().ok());
  EXPECT_FALSE(bench->device(0).info().name.empty());
  EXPECT_EQ(bench->device(0).info().memory, setup.memory);
}

// 1 and 2: a chain in two rows, one state read and the other written in turns, enqueued at once.
TEST_P(DeviceTest, TasksRunInOrderAndReadWhatEarlierOnesWrote) {
  constexpr int32_t kSteps = 40;
  std::vector<std::vector<float>> at_once(kSteps, std::vector<float>(kH));
  std::vector<std::vector<float>> one_by_one = at_once;
  for (auto* answers : {&at_once, &one_by_one}) {
    for (int32_t t = 0; t < kSteps; ++t) {
      BatchedTask* const task = Step(1 + t, t == 0 ? kZeroRow : 1 + (t - 1) % 2, 1 + t % 2);
      if (t == 0) BringVectors(task, 1, kSteps);
      bench->CopyOut(task, kHidden, 1 + t % 2, (*answers)[static_cast<size_t>(t)].data());
      if (answers == &one_by_one) {
        ASSERT_TRUE(bench->Run(0));
      }
    }
    ASSERT_TRUE(bench->Run(0));
  }
  for (size_t t = 0; t < kSteps; ++t) {
    ASSERT_EQ(Bits(at_once[t]), Bits(one_by_one[t])) << "step " << t;
  }
  EXPECT_NE(Bits(at_once[0]), Bits(at_once[1]));
}

TEST_P(DeviceTest, ATaskReadsWhatAnotherCellTypeWroteJustBefore) {
  float together[5], apart[5];
  for (float* answer : {together, apart}) {
    BringVectors(Step(1, kZeroRow, 7), 1, 1);
    if (answer == apart) {
      ASSERT_TRUE(bench->Run(0));
    }
    BatchedTask* const last = bench->Task(0, {.cell = head, .inputs = {{7}}, .out = {3}});
    bench->CopyOut(last, ColumnId(0), 3, answer);
    ASSERT_TRUE(bench->Run(0));
  }
  EXPECT_EQ(std::memcmp(together, apart, sizeof(together)), 0);
}

// 3.
TEST_P(DeviceTest, ATaskIsDoneWithItsAnswersAndInOrder) {
  constexpr int kTasks = 20;
  std::vector<float> expected(kH);
  BatchedTask* const first = Step(1, kZeroRow, 1);
  BringVectors(first, 1, 1);
  bench->CopyOut(first, kHidden, 1, expected.data());
  ASSERT_TRUE(bench->Run(0));
  std::vector<std::vector<float>> answers(kTasks, std::vector<float>(kH, -9.0f));
  std::vector<BatchedTask*> tasks;
  for (auto& answer : answers) {
    tasks.push_back(Step(1, kZeroRow, 2));
    bench->CopyOut(tasks.back(), kHidden, 2, answer.data());
  }
  uint64_t signal = bench->device(0).Signal();
  for (int step = 0; !bench->IsDone(0, tasks.back()); ++step) {
    ASSERT_LT(step, 100000);
    bench->Enqueue(0);
    bench->Advance(0);
    const uint64_t now = bench->device(0).Signal();
    ASSERT_TRUE(SignalPassed(now, signal)) << "the signal went backwards";
    bench->Collect(0);
    signal = now;
    for (size_t i = 0; i < tasks.size(); ++i) {
      if (SignalPassed(now, tasks[i]->sequence)) {
        ASSERT_EQ(Bits(answers[i]), Bits(expected)) << "task " << i;
      }
    }
  }
}

// 4.
TEST_P(DeviceTest, AFullQueueTakesTasksFromTheFrontAndTheRestLater) {
  constexpr int32_t kTasks = 500;
  std::vector<float> last(kH), alone(kH);
  for (int32_t t = 0; t < kTasks; ++t) {
    BatchedTask* const task = Step(1, t == 0 ? kZeroRow : 1 + (t - 1) % 2, 1 + t % 2);
    if (t == 0) BringVectors(task, 1, 1);
    if (t == kTasks - 1) bench->CopyOut(task, kHidden, 1 + t % 2, last.data());
  }
  // An emulated GPU computes on threads of its own, as slowly as the machine lets it: not how often it is asked is bounded.
  constexpr std::chrono::minutes kStuck{1};
  auto taken_last = std::chrono::steady_clock::now();
  int offers = 0;
  for (int taken = 0; taken < kTasks; ++offers) {
    const int more = bench->Enqueue(0);  // never waits: nobody computes meanwhile
    ASSERT_GE(more, 0);
    taken += more;
    const auto now = std::chrono::steady_clock::now();
    if (more > 0) taken_last = now;
    ASSERT_LT(now - taken_last, kStuck) << taken << " of " << kTasks << " tasks were taken";
    bench->Advance(0);
    bench->device(0).Signal();  // a narrow counter is read before it comes round
    if (more == 0) std::this_thread::yield();
  }
  EXPECT_GT(offers, 1) << "500 tasks are more than a queue holds";
  ASSERT_TRUE(bench->Run(0));
  for (int32_t t = 0; t < kTasks; ++t) {
    BatchedTask* const task = Step(1, t == 0 ? kZeroRow : 1 + (t - 1) % 2, 1 + t % 2);
    if (t == kTasks - 1) bench->CopyOut(task, kHidden, 1 + t % 2, alone.data());
    ASSERT_TRUE(bench->Run(0));
  }
  EXPECT_EQ(Bits(last), Bits(alone));
}

// 5.
TEST_P(DeviceBitsTest, BitsDependOnNeitherCompanyNorPlace) {
  std::vector<float> h(kH), c(kH), alone_h(kH), alone_c(kH);
  BatchedTask* const states = bench->Task(0, [&] {
    TaskSpec spec = {.cell = lstm, .inputs = {{}, {}}};
    for (Row r = 1; r <= 300; ++r) {
      spec.inputs[0].push_back(r);
      spec.inputs[1].push_back(kZeroRow);
      spec.out.push_back(r);
    }
    return spec;
  }());
  BringVectors(states, 1, 600);
  ASSERT_TRUE(bench->Run(0));
  BatchedTask* const alone = Step(400, 77, 1000);
  bench->CopyOut(alone, kHidden, 1000, alone_h.data());
  bench->CopyOut(alone, kState, 1000, alone_c.data());
  ASSERT_TRUE(bench->Run(0));
  for (const int32_t batch : {2, 7, 64, 300}) {
    for (const int32_t at : {0, batch / 3, batch - 1}) {
      TaskSpec spec = {.cell = lstm, .inputs = {{}, {}}};
      for (int32_t i = 0; i < batch; ++i) {
        spec.inputs[0].push_back(i == at ? 400 : 1 + (i * 31) % 600);
        spec.inputs[1].push_back(i == at ? 77 : (i * 17) % 300);
        spec.out.push_back(1001 + i);
      }
      BatchedTask* const task = bench->Task(0, spec);
      bench->CopyOut(task, kHidden, 1001 + at, h.data());
      bench->CopyOut(task, kState, 1001 + at, c.data());
      ASSERT_TRUE(bench->Run(0));
      EXPECT_EQ(Bits(h), Bits(alone_h)) << at << " of " << batch;
      EXPECT_EQ(Bits(c), Bits(alone_c)) << at << " of " << batch;
    }
  }
}

// 5: however wide its launch is. All rows of the table that it does not write are as before.
TEST_P(DeviceTest, NodesBeyondTheTaskLeaveNoTrace) {
  constexpr Row kLast = 40;
  const TableId states = model->type(lstm).out;
  EXPECT_GE(bench->loaded().trash_row(states), kRows);
  EXPECT_GE(bench->loaded().trash_row(model->type(head).out), kRows);
  BringVectors(Step(1, kZeroRow, 1), 1, kLast);
  for (Row r = 2; r <= kLast; ++r) Step(r, r - 1, r);
  const auto heads = [&] {
    std::vector<std::vector<float>> answers(kLast + 1, std::vector<float>(5));
    for (Row r = 0; r <= kLast; ++r) {
      BatchedTask* const task = bench->Task(0, {.cell = head, .inputs = {{r}}, .out = {1 + r}});
      bench->CopyOut(task, ColumnId(0), 1 + r, answers[static_cast<size_t>(r)].data());
    }
    EXPECT_TRUE(bench->Run(0));
    return answers;
  };
  const std::vector<std::vector<float>> before = heads();
  for (const int32_t nodes : {1, 3, 7, 9}) {
    TaskSpec spec = {.cell = lstm, .inputs = {{}, {}}};
    for (int32_t i = 0; i < nodes; ++i) {
      spec.inputs[0].push_back(1 + i);
      spec.inputs[1].push_back(2 + i);
      spec.out.push_back(kLast + 1 + i);
    }
    bench->Task(0, spec);
    const std::vector<std::vector<float>> after = heads();
    for (size_t r = 0; r <= kLast; ++r) {
      EXPECT_EQ(Bits(after[r]), Bits(before[r])) << "row " << r << ", " << nodes << " nodes";
    }
  }
}

// Of a task, too: they read row 0 and write the trash row, all of them (batched_task.h).
TEST_P(DeviceBitsTest, PaddingChangesNobodysBits) {
  const TableId states = model->type(lstm).out;
  const Row trash = bench->loaded().trash_row(states);
  BringVectors(Step(1, kZeroRow, 1), 1, 8);
  TaskSpec alone = {.cell = lstm, .inputs = {{2, 3}, {1, 1}}, .out = {2, 3}};
  std::vector<float> before[2], after[2];
  for (std::vector<float>* h : {before, after}) h[0].resize(kH), h[1].resize(kH);
  BatchedTask* const bare = bench->Task(0, alone);
  for (size_t i = 0; i < 2; ++i) {
    bench->CopyOut(bare, kHidden, 2 + static_cast<Row>(i), before[i].data());
  }
  ASSERT_TRUE(bench->Run(0));
  for (const int32_t padding : {1, 6, 70}) {
    TaskSpec spec = {.cell = lstm, .inputs = {{2}, {1}}, .out = {2}};
    for (int32_t i = 0; i < padding; ++i) {
      for (size_t input = 0; input < 2; ++input) spec.inputs[input].push_back(kZeroRow);
      spec.out.push_back(trash);
    }
    spec.inputs[0].push_back(3);
    spec.inputs[1].push_back(1);
    spec.out.push_back(3);
    BatchedTask* const padded = bench->Task(0, spec);
    for (size_t i = 0; i < 2; ++i) {
      bench->CopyOut(padded, kHidden, 2 + static_cast<Row>(i), after[i].data());
    }
    ASSERT_TRUE(bench->Run(0));
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(Bits(after[i]), Bits(before[i])) << padding;
  }
}

// 6.
TEST_P(DeviceTest, NothingIsAllocatedWhileTasksRun) {
  std::vector<float> answer(kH);
  const auto make = [&] {
    for (int32_t t = 0; t < 10; ++t) {
      BatchedTask* const task = Step(1, kZeroRow, 1 + t);
      if (t == 0) BringVectors(task, 1, 1);
      bench->CopyOut(task, kHidden, 1 + t, answer.data());
      bench->Task(0, {.cell = decode, .inputs = {{1}}, .out = {1 + t}});
      bench->Task(0, {.cell = child_sum, .inputs = {{1}}, .sums = {{}, {{}}}, .out = {1 + t}});
    }
  };
  make();
  ASSERT_TRUE(bench->Run(0));  // warm
  make();
  const int64_t before = testing::AllocationsOfThisThread();
  const bool ran = bench->Run(0);
  const int64_t after = testing::AllocationsOfThisThread();
  ASSERT_TRUE(ran);
  EXPECT_EQ(after - before, 0);
}

TEST_P(DeviceBitsTest, TheZeroRowReadsTheSameForEver) {
  std::vector<float> first(kH), last(kH);
  for (int32_t t = 0; t < 30; ++t) {
    BatchedTask* const task = Step(1, kZeroRow, 1 + t);
    if (t == 0) BringVectors(task, 1, 1);
    bench->CopyOut(task, kHidden, 1 + t, t == 0 ? first.data() : last.data());
  }
  ASSERT_TRUE(bench->Run(0));
  EXPECT_EQ(Bits(first), Bits(last));
}

TEST_P(DeviceTest, BlankedCopiesTouchNothing) {
  std::vector<float> before(kH), after(kH, 4.0f);
  BatchedTask* const task = Step(1, kZeroRow, 1);
  BringVectors(task, 1, 1);
  bench->CopyOut(task, kHidden, 1, before.data());
  ASSERT_TRUE(bench->Run(0));
  BatchedTask* const blanked = Step(1, kZeroRow, 2);
  bench->CopyIn(blanked, FindTable(*model, "x"), 1, 0, nullptr);  // would overwrite row 1
  bench->CopyOut(blanked, kHidden, 2, nullptr);
  bench->CopyOut(blanked, kHidden, 2, after.data());
  ASSERT_TRUE(bench->Run(0));
  EXPECT_EQ(Bits(before), Bits(after));
}

TEST_P(DeviceTest, RowsThatJoinAreThereForTheTaskThatBringsThem) {
  std::vector<float> joined(kH), waited(kH);
  BatchedTask* const task = Step(9, kZeroRow, 1);
  BringVectors(task, 9, 1, 5);
  bench->CopyOut(task, kHidden, 1, joined.data());
  BringVectors(Step(9, kZeroRow, 2), 20, 1, 5);  // long before it is read
  ASSERT_TRUE(bench->Run(0));
  bench->CopyOut(Step(20, kZeroRow, 1), kHidden, 1, waited.data());
  ASSERT_TRUE(bench->Run(0));
  EXPECT_EQ(Bits(joined), Bits(waited));
}

TEST_P(DeviceBitsTest, SumsReadAnyNumberOfRowsInLinkOrder) {
  const auto tree = [&](const std::vector<Row>& children, Row out, std::vector<float>& answer) {
    answer.resize(kH);
    BatchedTask* const task = bench->Task(
        0, {.cell = child_sum, .inputs = {{1}}, .sums = {{}, {children}}, .out = {out}});
    bench->CopyOut(task, ColumnId(0), out, answer.data());
    return task;
  };
  std::vector<float> leaf, one, three, again, none_in_company, three_in_company;
  BringVectors(tree({}, 1, leaf), 1, 2);
  tree({1}, 2, one);
  tree({1, 2, 1}, 3, three);
  tree({1, 2, 1}, 4, again);
  BatchedTask* const both = bench->Task(
      0, {.cell = child_sum, .inputs = {{1, 1}}, .sums = {{}, {{}, {1, 2, 1}}}, .out = {5, 6}});
  none_in_company.resize(kH);
  three_in_company.resize(kH);
  bench->CopyOut(both, ColumnId(0), 5, none_in_company.data());
  bench->CopyOut(both, ColumnId(0), 6, three_in_company.data());
  ASSERT_TRUE(bench->Run(0));
  EXPECT_EQ(Bits(three), Bits(again));
  EXPECT_EQ(Bits(three), Bits(three_in_company));
  EXPECT_EQ(Bits(leaf), Bits(none_in_company));
  EXPECT_NE(Bits(leaf), Bits(one));
  EXPECT_NE(Bits(one), Bits(three));
}

TEST_P(DeviceTest, TheHostSeesIntegersOfWhatTheSignalPassed) {
  BringVectors(Step(1, kZeroRow, 1), 1, 8);
  for (Row r = 2; r <= 8; ++r) Step(r, r - 1, r);
  TaskSpec spec = {.cell = decode, .inputs = {{}}};
  int32_t words[8] = {};
  for (Row r = 1; r <= 8; ++r) {
    spec.inputs[0].push_back(r);
    spec.out.push_back(r);
  }
  BatchedTask* const task = bench->Task(0, spec);
  for (Row r = 1; r <= 8; ++r) bench->CopyOut(task, kWord, r, &words[r - 1]);
  ASSERT_TRUE(bench->Run(0));
  const absl::Span<const int32_t> column =
      bench->loaded().host_column(model->type(decode).out, kWord);
  ASSERT_GE(column.size(), 9u);
  ASSERT_LE(column.size(), static_cast<size_t>(kRows)) << "a trash row is nobody's";
  for (size_t r = 1; r <= 8; ++r) EXPECT_EQ(column[r], words[r - 1]);
}

// A state that a request brings: each column is a copy of its own, into rows that else a task leaves.
TEST_P(DeviceTest, AStateThatIsBroughtIsTheStateThatWasLeft) {
  std::vector<float> h(kH), c(kH), went_on(kH), began(kH), from_zeros(kH);
  BatchedTask* const before = Step(1, kZeroRow, 1);
  BringVectors(before, 1, 2);
  bench->CopyOut(before, kHidden, 1, h.data());
  bench->CopyOut(before, kState, 1, c.data());
  BatchedTask* const after = Step(2, 1, 2);
  bench->CopyOut(after, kHidden, 2, went_on.data());
  ASSERT_TRUE(bench->Run(0));
  BatchedTask* const task = Step(2, 9, 3);
  bench->CopyIn(task, model->type(lstm).out, 9, 1, h.data(), kHidden);
  bench->CopyIn(task, model->type(lstm).out, 9, 1, c.data(), kState);
  bench->CopyOut(task, kHidden, 3, began.data());
  BatchedTask* const zeros = Step(2, kZeroRow, 4);
  bench->CopyOut(zeros, kHidden, 4, from_zeros.data());
  ASSERT_TRUE(bench->Run(0));
  if (GetParam().computes) {
    EXPECT_EQ(Bits(went_on), Bits(began));
  }
  EXPECT_NE(Bits(began), Bits(from_zeros));
}

TEST_P(DeviceTest, TokensComeAsRowsToo) {
  const int32_t tokens[] = {7, 3, 7};
  std::vector<float> a(kH), b(kH), c(kH);
  BatchedTask* const task = bench->Task(0, {.cell = token_lstm,
                                            .inputs = {{1, 2, 3}, {kZeroRow, kZeroRow, kZeroRow}},
                                            .out = {1, 2, 3}});
  bench->CopyIn(task, FindTable(*model, "token"), 1, 3, tokens);
  bench->CopyOut(task, kHidden, 1, a.data());
  bench->CopyOut(task, kHidden, 2, b.data());
  bench->CopyOut(task, kHidden, 3, c.data());
  ASSERT_TRUE(bench->Run(0));
  EXPECT_EQ(Bits(a), Bits(c));
  EXPECT_NE(Bits(a), Bits(b));
}

// 10.
TEST_P(DeviceTest, EveryTaskHasTimesOfItsOwnAndNoneBeginsBeforeTheLastOneEnded) {
  std::vector<BatchedTask*> tasks;
  for (int32_t t = 0; t < 12; ++t) {
    TaskSpec spec = {.cell = lstm, .inputs = {{}, {}}};
    for (int32_t i = 0; i < 20 * (1 + t % 3); ++i) {
      spec.inputs[0].push_back(1 + i);
      spec.inputs[1].push_back(kZeroRow);
      spec.out.push_back(1 + i);
    }
    tasks.push_back(bench->Task(0, spec));
    if (t == 0) BringVectors(tasks[0], 1, 60);
  }
  ASSERT_TRUE(bench->Run(0));
  for (size_t t = 0; t < tasks.size(); ++t) {
    EXPECT_GT(tasks[t]->end_ns, tasks[t]->start_ns) << "task " << t;
    if (t == 0) continue;
    EXPECT_GE(tasks[t]->start_ns, tasks[t - 1]->end_ns) << "task " << t;
  }
}

// 11: whether it failed before or not. Rows are seen through the host column and through answers.
TEST_P(DeviceTest, AnAbandonedDeviceWritesNothingAnyMore) {
  constexpr int kTasks = 4;
  BringVectors(Step(1, kZeroRow, 1), 1, 1);
  ASSERT_TRUE(bench->Run(0));
  int32_t words[kTasks] = {-1, -1, -1, -1};
  for (int t = 0; t < kTasks; ++t) {
    BatchedTask* const task = bench->Task(0, {.cell = decode, .inputs = {{1}}, .out = {5 + t}});
    bench->CopyOut(task, kWord, 5 + t, &words[t]);
  }
  bench->Enqueue(0);
  bench->device(0).Advance();
  if (setup.fail) setup.fail(0);
  bench->device(0).Abandon();
  const std::vector<std::byte> staged = bench->CopiedOut();
  const std::vector<int32_t> direct(std::begin(words), std::end(words));
  const auto column = bench->loaded().host_column(model->type(decode).out, kWord);
  const std::vector<int32_t> rows(column.begin(), column.end());
  if (setup.later) setup.later();
  EXPECT_EQ(bench->CopiedOut(), staged);
  EXPECT_TRUE(std::equal(direct.begin(), direct.end(), words));
  EXPECT_TRUE(std::equal(rows.begin(), rows.end(), column.begin()));
}

TEST_P(DevicePairTest, ADeviceReadsWhatAnotherWroteOnceItsSignalPassed) {
  std::vector<float> across(kH), alone(kH);
  BringVectors(Step(1, kZeroRow, 1, 0), 1, 2);
  ASSERT_TRUE(bench->Run(0));
  bench->CopyOut(Step(2, 1, 2, 1), kHidden, 2, across.data());
  ASSERT_TRUE(bench->Run(1));
  bench->CopyOut(Step(2, 1, 3, 0), kHidden, 3, alone.data());
  ASSERT_TRUE(bench->Run(0));
  EXPECT_EQ(Bits(across), Bits(alone));
}

TEST_P(DevicePairTest, TwoDevicesRunAtTheSameTimeOnRowsOfTheirOwn) {
  constexpr int32_t kSteps = 60;
  std::vector<float> answers[2] = {std::vector<float>(kH), std::vector<float>(kH)};
  for (int d = 0; d < 2; ++d) {
    const Row base = 100 * (d + 1);
    for (int32_t t = 0; t < kSteps; ++t) {
      BatchedTask* const task =
          Step(base + t, t == 0 ? kZeroRow : base + (t - 1) % 2, base + t % 2, d);
      if (t == 0) BringVectors(task, base, kSteps);
      if (t == kSteps - 1) {
        bench->CopyOut(task, kHidden, base + t % 2, answers[d].data());
      }
    }
  }
  bool ran[2] = {};
  std::thread other([&] { ran[1] = bench->Run(1); });
  ran[0] = bench->Run(0);
  other.join();
  ASSERT_TRUE(ran[0] && ran[1]);
  EXPECT_EQ(Bits(answers[0]), Bits(answers[1]));
}

// 7.
TEST_P(BreakableDeviceTest, ABrokenDeviceSaysSoForGood) {
  BringVectors(Step(1, kZeroRow, 1), 1, 1);
  ASSERT_TRUE(bench->Run(0));
  setup.fail(0);
  Step(1, kZeroRow, 2);
  EXPECT_FALSE(bench->Run(0));
  for (int i = 0; i < 100; ++i) {
    bench->device(0).Advance();
    EXPECT_FALSE(bench->device(0).Health().ok());
  }
  bench->device(0).Abandon();  // only now may its rows and blocks go
}

}  // namespace
}  // namespace cellbatch::conformance
