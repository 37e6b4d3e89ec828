#include "cells/device/sim/sim_device.h"

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cellbatch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr TableId kTokens{0}, kState{1};
constexpr CellTypeId kChain{0}, kSum{1};

// Two cells over {token} and {h, word}: a chain, and a sum of any number of states.
Model TestModel() {
  const Column token{"token", ElementType::kInt32, 1}, h{"h", ElementType::kFp32, 2},
      word{"word", ElementType::kInt32, 1};
  const std::vector<Op> ops = {
      {.kind = OpKind::kConstant, .shape = Shape::Vector(2)},
      {.kind = OpKind::kArgMax, .args = {ValueId(0)}, .type = ElementType::kInt32}};
  const std::vector<Output> outputs = {{"h", ValueId(0)}, {"word", ValueId(1)}};
  Model m;
  m.id = ModelId(3);
  m.tables = {{"tokens", {token}}, {"state", {h, word}}};
  const auto add = [&](std::string name, std::vector<Input> inputs, std::vector<TableId> in,
                       std::optional<InputId> carry) {
    auto cell = CellDefinition::Create(name, ops, std::move(inputs), {}, outputs, carry);
    EXPECT_TRUE(cell.ok()) << cell.status();
    m.types.push_back({.id = CellTypeId(static_cast<int64_t>(m.types.size())),
                       .name = name,
                       .definition = std::make_shared<CellDefinition>(*std::move(cell)),
                       .weights = {},
                       .in = std::move(in),
                       .out = kState});
  };
  add("chain", {{"x", {token}}, {"prev", {h, word}}}, {kTokens, kState}, InputId(1));
  add("sum", {{"children", {h}, Arity::kSum}}, {kState}, std::nullopt);
  return m;
}

class SimDeviceTest : public ::testing::Test {
 protected:
  SimDeviceTest() : loaded(*memory.Load(model, {{100, 100}})) {}

  BatchedTask Chain(uint64_t sequence, const std::vector<Row>& x, const std::vector<Row>& prev,
                    const std::vector<Row>& out) {
    BatchedTask t;
    t.sequence = sequence;
    t.model = loaded.get();
    t.cell = kChain;
    t.num_nodes = static_cast<int32_t>(out.size());
    t.inputs[0].rows = x.data();
    t.inputs[1].rows = prev.data();
    t.output_rows = out.data();
    return t;
  }
  void Run(SimDevice& device, BatchedTask& task) {
    BatchedTask* tasks[] = {&task};
    ASSERT_EQ(device.Enqueue(tasks), 1);
    while (device.Advance()) {
    }
  }
  Fingerprint Of(Row row) const { return memory.loaded(model.id)->row(kState, row).fingerprint; }
  std::string Violation() {
    return memory.violations().count() == 0 ? "" : memory.violations().first().front();
  }

  const Model model = TestModel();
  SimTime time;
  SimMemory memory;
  std::unique_ptr<LoadedModel> loaded;
  const int32_t tokens[3] = {11, 12, 13};
  const CopyIn copy_in = {reinterpret_cast<const std::byte*>(tokens), kTokens, 1, 3};
};

TEST_F(SimDeviceTest, ARowHoldsTheFingerprintOfAllThatMadeIt) {
  SimDevice device({}, memory, time);
  const std::vector<Row> x = {2, 3}, prev = {kZeroRow, kZeroRow}, out = {5, 6};
  BatchedTask task = Chain(1, x, prev, out);
  task.copies_in = &copy_in;
  task.num_copies_in = 1;
  int32_t word = -1;
  float state[2] = {};
  const CopyOut copies_out[] = {{reinterpret_cast<std::byte*>(&word), ColumnId(1), 6},
                                {reinterpret_cast<std::byte*>(state), ColumnId(0), 6},
                                {nullptr, ColumnId(0), 5}};
  task.copies_out = copies_out;
  task.num_copies_out = 3;
  Run(device, task);
  NodeFingerprint expected(model.id, kChain);
  expected.Read(InputId(0), FingerprintOfInput(absl::MakeConstSpan(
                                reinterpret_cast<const std::byte*>(&tokens[2]), 4)));
  expected.Read(InputId(1), kZeroFingerprint);
  EXPECT_EQ(Of(6), expected.value());
  EXPECT_NE(Of(5), Of(6));
  EXPECT_EQ(device.Signal(), 1u);
  EXPECT_EQ(loaded->host_column(kState, ColumnId(1))[6], word);
  EXPECT_EQ(word, WordBelow16(ElementOf(Of(6), ColumnId(1), 0)));
  const uint32_t bits = ElementOf(Of(6), ColumnId(0), 1);
  EXPECT_EQ(std::memcmp(&bits, &state[1], 4), 0);
  EXPECT_EQ(memory.violations().count(), 0) << Violation();
}

TEST_F(SimDeviceTest, SumsTellTheirOrder) {
  SimDevice device({}, memory, time);
  const std::vector<Row> x = {2, 3}, prev = {kZeroRow, kZeroRow}, out = {5, 6};
  BatchedTask task = Chain(1, x, prev, out);
  task.copies_in = &copy_in;
  task.num_copies_in = 1;
  Run(device, task);
  const std::vector<Row> children = {5, 6, 6, 5}, sums = {7, 8, 9};
  const std::vector<int32_t> offsets = {0, 2, 4, 4};
  BatchedTask sum;
  sum.sequence = 2;
  sum.model = loaded.get();
  sum.cell = kSum;
  sum.num_nodes = 3;
  sum.inputs[0] = {children.data(), offsets.data()};
  sum.output_rows = sums.data();
  Run(device, sum);
  EXPECT_NE(Of(7), Of(8));
  EXPECT_EQ(Of(9), NodeFingerprint(model.id, kSum).value());
  EXPECT_EQ(memory.violations().count(), 0) << Violation();
}

TEST_F(SimDeviceTest, NoticesAReaderInItsPredecessorsOwnTask) {
  SimDevice device({}, memory, time);
  const std::vector<Row> x = {kZeroRow, kZeroRow}, prev = {kZeroRow, 5}, out = {5, 6};
  BatchedTask task = Chain(1, x, prev, out);
  Run(device, task);
  EXPECT_THAT(Violation(), HasSubstr("row 5 of table 1, which was never written"));
}

TEST_F(SimDeviceTest, NoticesAnInputThatChangesWhileItComputes) {
  SimDevice first({.name = "sim:0"}, memory, time), second({.name = "sim:1"}, memory, time);
  const std::vector<Row> zero = {kZeroRow}, five = {5}, six = {6};
  BatchedTask write = Chain(1, zero, zero, five);
  Run(first, write);
  BatchedTask read = Chain(2, zero, five, six);
  BatchedTask again = Chain(1, zero, zero, five);
  BatchedTask *a[] = {&read}, *b[] = {&again};
  ASSERT_EQ(first.Enqueue(a), 1);
  ASSERT_EQ(second.Enqueue(b), 1);
  EXPECT_TRUE(first.Advance());   // starts to read row 5
  EXPECT_TRUE(second.Advance());  // starts to write it
  EXPECT_TRUE(first.Advance());
  EXPECT_THAT(Violation(), HasSubstr("sim:0, task 2 of type 0: node 0: input 1 (row 5"));
}

TEST_F(SimDeviceTest, NoticesReadingWhatAnotherDeviceIsWritingAndWhatWasFreed) {
  SimDevice first({.name = "sim:0"}, memory, time), second({.name = "sim:1"}, memory, time);
  const std::vector<Row> zero = {kZeroRow}, five = {5}, six = {6};
  BatchedTask write = Chain(1, zero, zero, five), read = Chain(1, zero, five, six);
  BatchedTask *a[] = {&write}, *b[] = {&read};
  ASSERT_EQ(first.Enqueue(a), 1);
  ASSERT_EQ(second.Enqueue(b), 1);
  EXPECT_TRUE(first.Advance());
  EXPECT_TRUE(second.Advance());
  EXPECT_THAT(Violation(), HasSubstr("which is being written"));
  EXPECT_TRUE(first.Advance());
  EXPECT_TRUE(second.Advance());
  memory.loaded(model.id)->Free(kState, 5, 1);
  BatchedTask late = Chain(2, zero, five, six);
  Run(second, late);
  EXPECT_THAT(memory.violations().first().back(), HasSubstr("which was freed"));
}

TEST_F(SimDeviceTest, TakesVirtualTimeAndMovesItOnlyWhenTold) {
  SimDevice device({.cost = {1000, 10}}, memory, time);
  device.set_moves_time(false);
  const std::vector<Row> zero = {kZeroRow, kZeroRow}, out = {5, 6};
  BatchedTask task = Chain(1, zero, zero, out);
  BatchedTask* tasks[] = {&task};
  const int64_t start = time.now_ns();
  ASSERT_EQ(device.Enqueue(tasks), 1);
  EXPECT_TRUE(device.Advance());
  EXPECT_FALSE(device.Advance());
  EXPECT_EQ(device.Signal(), 0u);
  ASSERT_EQ(device.next_event_ns(), start + 1020);
  time.AdvanceTo(start + 1020);
  EXPECT_TRUE(device.Advance());
  EXPECT_EQ(device.Signal(), 1u);
  EXPECT_EQ(device.next_event_ns(), std::nullopt);
}

TEST_F(SimDeviceTest, ANarrowSignalIsWidened) {
  SimDevice device({.signal_bits = 8}, memory, time);
  const std::vector<Row> zero = {kZeroRow}, out = {5};
  for (uint64_t n = 1; n <= 1000; ++n) {
    BatchedTask task = Chain(n, zero, zero, out);
    Run(device, task);
    ASSERT_EQ(device.Signal(), n);
  }
}

TEST_F(SimDeviceTest, AHeldSignalShowsLaterWhatEndedMeanwhile) {
  SimDevice device({}, memory, time);
  const std::vector<Row> zero = {kZeroRow}, out = {5};
  device.HoldSignal(true);
  BatchedTask first = Chain(1, zero, zero, out), second = Chain(2, zero, zero, out);
  Run(device, first);
  Run(device, second);
  EXPECT_EQ(device.Signal(), 0u);
  device.HoldSignal(false);
  EXPECT_EQ(device.Signal(), 2u);
}

TEST_F(SimDeviceTest, AFailedDeviceStandsStillForGood) {
  SimDevice device({}, memory, time);
  const std::vector<Row> zero = {kZeroRow}, out = {5};
  BatchedTask task = Chain(1, zero, zero, out);
  BatchedTask* tasks[] = {&task};
  ASSERT_EQ(device.Enqueue(tasks), 1);
  EXPECT_TRUE(device.Advance());
  device.Fail(absl::InternalError("fell off the bus"));
  EXPECT_FALSE(device.Advance());
  EXPECT_EQ(device.Enqueue(tasks), 0);
  EXPECT_EQ(device.Signal(), 0u);
  EXPECT_THAT(std::string(device.Health().message()), HasSubstr("fell off the bus"));
}

TEST_F(SimDeviceTest, BreaksByItselfAfterSoManyTasks) {
  SimDevice device({.fails_after_tasks = 1}, memory, time);
  const std::vector<Row> zero = {kZeroRow}, out = {5};
  BatchedTask first = Chain(1, zero, zero, out), second = Chain(2, zero, zero, out);
  Run(device, first);
  EXPECT_TRUE(device.Health().ok());
  Run(device, second);
  EXPECT_FALSE(device.Health().ok());
  EXPECT_EQ(device.Signal(), 1u);
}

TEST_F(SimDeviceTest, AFullQueueTakesWhatFits) {
  SimDevice device({.queue_capacity = 2}, memory, time);
  const std::vector<Row> zero = {kZeroRow}, out = {5};
  BatchedTask a = Chain(1, zero, zero, out), b = Chain(2, zero, zero, out),
              c = Chain(3, zero, zero, out);
  BatchedTask* tasks[] = {&a, &b, &c};
  EXPECT_EQ(device.Enqueue(tasks), 2);
  EXPECT_TRUE(device.Advance());
  EXPECT_TRUE(device.Advance());
  EXPECT_EQ(device.Enqueue(absl::MakeSpan(tasks).subspan(2)), 1);
  EXPECT_EQ(memory.violations().count(), 0) << Violation();
}

TEST_F(SimDeviceTest, AtZeroCostAWholeQueueIsDoneAtOnceAndNothingIsTouched) {
  SimMemory bare({.fingerprints = false});
  const std::unique_ptr<LoadedModel> load = *bare.Load(model, {{100, 100}});
  SimDevice device({.zero_cost = true}, bare, time);
  BatchedTask a, b;
  a.sequence = 1;
  b.sequence = 2;
  BatchedTask* tasks[] = {&a, &b};
  ASSERT_EQ(device.Enqueue(tasks), 2);
  EXPECT_TRUE(device.Advance());
  EXPECT_EQ(device.Signal(), 2u);
  EXPECT_FALSE(device.Advance());
}

TEST_F(SimDeviceTest, LoadWantsRowsForEveryTable) {
  EXPECT_THAT(std::string(memory.Load(model, {{100}}).status().message()),
              HasSubstr("rows for 1 tables"));
  EXPECT_FALSE(memory.Load(model, {{100, 0}}).ok());
  EXPECT_THAT(loaded->host_column(kState, ColumnId(1)), ::testing::SizeIs(100));
}

// What runs by itself: time alone moves its tasks along, several deep, and each has its own time stamps.
TEST_F(SimDeviceTest, RunsByItselfAsTimePasses) {
  SimDevice device({.runs = SimRuns::kInTime, .cost = {1000, 10}, .clock_ns = 77}, memory, time);
  EXPECT_FALSE(device.info().computes_in_advance);
  device.set_moves_time(false);
  const std::vector<Row> zero = {kZeroRow}, five = {5}, six = {6}, seven = {7};
  BatchedTask a = Chain(1, zero, zero, five), b = Chain(2, zero, five, six),
              c = Chain(3, zero, six, seven);
  BatchedTask* tasks[] = {&a, &b, &c};
  const int64_t start = time.now_ns();
  ASSERT_EQ(device.Enqueue(tasks), 3);
  EXPECT_FALSE(device.Advance());
  time.AdvanceTo(start + 2500);
  EXPECT_EQ(device.Signal(), 2u);
  EXPECT_EQ(device.next_event_ns(), start + 3030);
  time.AdvanceTo(start + 5000);
  EXPECT_EQ(device.Signal(), 3u);
  EXPECT_EQ(time.now_ns(), start + 5000);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(tasks[i]->start_ns, 77 + start + 1010 * i);
    EXPECT_EQ(tasks[i]->end_ns, 77 + start + 1010 * (i + 1));
  }
  EXPECT_EQ(memory.violations().count(), 0) << Violation();
}

TEST_F(SimDeviceTest, AThreadOfItsOwnRunsItsTasks) {
  SimDevice device({.runs = SimRuns::kOnThread, .cost = {1000, 10}}, memory, time);
  const std::vector<Row> zero = {kZeroRow}, five = {5}, six = {6};
  BatchedTask a = Chain(1, zero, zero, five), b = Chain(2, zero, five, six);
  BatchedTask* tasks[] = {&a, &b};
  ASSERT_EQ(device.Enqueue(tasks), 2);
  while (device.Signal() != 2) std::this_thread::yield();
  EXPECT_FALSE(device.Advance());
  NodeFingerprint first(model.id, kChain), second(model.id, kChain);
  first.Read(InputId(0), kZeroFingerprint);
  first.Read(InputId(1), kZeroFingerprint);
  second.Read(InputId(0), kZeroFingerprint);
  second.Read(InputId(1), first.value());
  EXPECT_EQ(Of(6), second.value());
  EXPECT_EQ(memory.violations().count(), 0) << Violation();
}

TEST_F(SimDeviceTest, AFailedDeviceGoesOnWritingUntilItIsAbandoned) {
  for (const bool abandon : {false, true}) {
    SimDevice device({.runs = SimRuns::kInTime, .cost = {1000, 0}, .late_writes = true}, memory,
                     time);
    device.set_moves_time(false);
    const std::vector<Row> zero = {kZeroRow}, five = {5}, six = {6};
    BatchedTask a = Chain(1, zero, zero, five), b = Chain(2, zero, five, six);
    float answer[2] = {-1, -1};
    const CopyOut copy_out = {reinterpret_cast<std::byte*>(answer), ColumnId(0), 6};
    b.copies_out = &copy_out;
    b.num_copies_out = 1;
    BatchedTask* tasks[] = {&a, &b};
    ASSERT_EQ(device.Enqueue(tasks), 2);
    time.AdvanceTo(time.now_ns() + 500);
    device.Fail(absl::InternalError("fell off the bus"));
    EXPECT_FALSE(device.Health().ok());
    if (abandon) device.Abandon();
    const int64_t before = device.writes();
    time.AdvanceTo(time.now_ns() + 5000);
    EXPECT_EQ(device.Signal(), 0u);
    EXPECT_EQ(device.writes(), abandon ? before : before + 3);
    EXPECT_EQ(answer[0] == -1 && answer[1] == -1, abandon);
  }
}

TEST_F(SimDeviceTest, NoticesALateWriteOverRowsThatAreSomebodyElsesByNow) {
  SimDevice late(
      {.name = "sim:0", .runs = SimRuns::kInTime, .cost = {1000, 0}, .late_writes = true}, memory,
      time);
  SimDevice other({.name = "sim:1"}, memory, time);
  late.set_moves_time(false);
  const std::vector<Row> zero = {kZeroRow}, five = {5};
  BatchedTask a = Chain(1, zero, zero, five), b = Chain(1, zero, zero, five);
  BatchedTask *to_late[] = {&a}, *to_other[] = {&b};
  ASSERT_EQ(late.Enqueue(to_late), 1);
  time.AdvanceTo(time.now_ns());
  late.Fail(absl::InternalError("fell off the bus"));
  memory.loaded(model.id)->Free(kState, 5, 1);  // too early
  ASSERT_EQ(other.Enqueue(to_other), 1);
  EXPECT_TRUE(other.Advance());
  time.AdvanceTo(time.now_ns() + 2000);
  EXPECT_THAT(Violation(), HasSubstr("sim:0, task 1 of type 0: node 0 writes row 5"));
}

TEST_F(SimDeviceTest, AHungTaskEndsLaterOrNever) {
  SimDevice device({.runs = SimRuns::kInTime, .cost = {1000, 0}}, memory, time);
  device.set_moves_time(false);
  const std::vector<Row> zero = {kZeroRow}, five = {5};
  BatchedTask a = Chain(1, zero, zero, five), b = Chain(2, zero, zero, five);
  BatchedTask* tasks[] = {&a, &b};
  device.Hang(5000);
  ASSERT_EQ(device.Enqueue(tasks), 2);
  time.AdvanceTo(time.now_ns() + 5999);
  EXPECT_EQ(device.Signal(), 0u);
  time.AdvanceTo(time.now_ns() + 1);
  EXPECT_EQ(device.Signal(), 1u);
  device.Hang();
  time.AdvanceTo(time.now_ns() + 1'000'000'000);
  EXPECT_EQ(device.Signal(), 1u);
  EXPECT_EQ(device.next_event_ns(), std::nullopt);
  EXPECT_TRUE(device.Health().ok());
}

// Widths are multiples of 8: five nodes beyond the task read zeros and write the trash row.
TEST_F(SimDeviceTest, AWideLaunchTouchesNothingButTheTrashRow) {
  SimDevice device({.launch_multiple = 8}, memory, time);
  const std::vector<Row> zero = {kZeroRow, kZeroRow, kZeroRow}, out = {5, 6, 7};
  BatchedTask task = Chain(1, zero, zero, out);
  const Row trash = loaded->trash_row(kState);
  EXPECT_EQ(Of(trash), kZeroFingerprint);
  Run(device, task);
  EXPECT_EQ(trash, 100);
  EXPECT_NE(Of(trash), kZeroFingerprint);
  for (Row row = 0; row < trash; ++row) {
    EXPECT_EQ(Of(row) == kZeroFingerprint, row < 5 || row > 7) << row;
  }
  EXPECT_EQ(memory.violations().count(), 0) << Violation();
}

TEST_F(SimDeviceTest, NoTaskReadsATrashRowOrWritesBeyondIt) {
  SimDevice device({}, memory, time);
  const Row last = loaded->trash_row(kState);
  const std::vector<Row> zero = {kZeroRow}, trash = {last}, beyond = {last + 1}, out = {5};
  BatchedTask reads = Chain(1, zero, trash, out);
  EXPECT_DEATH(Run(device, reads), "a task reads rows of its tables");
  BatchedTask writes = Chain(1, zero, zero, beyond);
  EXPECT_DEATH(Run(device, writes), "a task writes rows of its table");
}

TEST_F(SimDeviceTest, PaddingReadsRowZeroAloneAndSeveralNodesOfItWriteTheTrashRow) {
  SimDevice device({}, memory, time);
  const Row trash = loaded->trash_row(kState);
  const std::vector<Row> zeros(4, kZeroRow), out = {trash, 5, trash, 6};
  BatchedTask padded = Chain(1, zeros, zeros, out);
  Run(device, padded);
  EXPECT_EQ(memory.violations().count(), 0) << Violation();
  EXPECT_NE(Of(5), kZeroFingerprint);
  const std::vector<Row> before = {kZeroRow, kZeroRow, 5, 5}, next = {trash, 7, trash, 8};
  BatchedTask wrong = Chain(2, zeros, before, next);
  Run(device, wrong);
  EXPECT_EQ(memory.violations().count(), 1) << "node 2 is padding and reads row 5";
}

TEST_F(SimDeviceTest, WithHostBlocksItReachesNothingElse) {
  const auto blocks = std::make_shared<SimHostBlocks>();
  SimMemory apart({.host_blocks = blocks});
  const std::unique_ptr<LoadedModel> load = *apart.Load(model, {{100, 100}});
  SimDevice device({}, apart, time);
  std::byte* const block = blocks->Allocate(12 + 8);
  std::memcpy(block, tokens, 12);
  const std::vector<Row> x = {2}, zero = {kZeroRow}, out = {5};
  CopyIn in = copy_in;
  CopyOut answer = {block + 12, ColumnId(0), 5};
  for (uint64_t n = 1; n <= 4; ++n) {
    BatchedTask task = Chain(n, x, zero, out);
    task.model = load.get();
    in.source = n == 2 ? copy_in.source : block;
    answer.dest = n == 3 ? block + 16 : block + 12;  // the last 4 bytes lie beyond
    if (n == 4) blocks->Free(block, 12 + 8);
    task.copies_in = &in;
    task.copies_out = &answer;
    task.num_copies_in = task.num_copies_out = 1;
    Run(device, task);
    const int64_t expected[] = {0, 0, 1, 2, 4};
    EXPECT_EQ(apart.violations().count(), expected[n]) << "task " << n;
  }
  EXPECT_THAT(apart.violations().first()[0], HasSubstr("copies in 12 bytes"));
  EXPECT_THAT(apart.violations().first()[1], HasSubstr("copies out 8 bytes"));
  EXPECT_EQ(blocks->bytes_in_use(), 0);
}

// Whatever number a device starts at, and however narrow its counter is.
TEST_F(SimDeviceTest, SequencesAndSignalsWrap) {
  const std::vector<Row> zero = {kZeroRow}, out = {5};
  for (const int bits : {8, 9, 31, 32, 33, 63, 64}) {
    for (const uint64_t wrap : {uint64_t{0}, uint64_t{1} << 32, uint64_t{1} << (bits % 64)}) {
      const uint64_t first = wrap - 20;
      SimDevice device({.queue_capacity = 3, .signal_bits = bits, .first_sequence = first}, memory,
                       time);
      ASSERT_EQ(device.Signal() + 1, first);
      for (uint64_t n = 0; n < 40; ++n) {
        BatchedTask task = Chain(first + n, zero, zero, out);
        Run(device, task);
        ASSERT_EQ(device.Signal(), first + n) << bits << " bits";
      }
      EXPECT_EQ(memory.violations().count(), 0) << Violation();
    }
  }
}

}  // namespace
}  // namespace cellbatch
