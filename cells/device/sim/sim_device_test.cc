#include "cells/device/sim/sim_device.h"

#include <cstring>
#include <memory>
#include <string>
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

}  // namespace
}  // namespace cellbatch
