#include "cells/device/cpu/cpu_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cells/device/cpu/cpu_device.h"
#include "cells/device/cpu/cpu_features.h"
#include "cells/device/cpu/process_limits.h"
#include "cells/device/signal.h"
#include "fmt/format.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

const kernels::CpuKernels& Best() { return kernels::BestKernels(DetectCpuFeatures()); }

RowBudget Rows(const Model& model, int32_t rows) {
  RowBudget budget;
  budget.rows.assign(model.tables.size(), rows);
  return budget;
}

TEST(CpuMemoryTest, RowsAreAlignedZeroAndNeverAPageApart) {
  const std::shared_ptr<Model> model = testing::OneCellModel(testing::LstmCell(3, 1024));
  CpuMemory memory(Best(), 1, 0);
  const auto loaded = memory.Load(*model, Rows(*model, 100));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto& cpu = static_cast<const CpuLoadedModel&>(**loaded);
  const ColumnArray& h = cpu.column(model->types[0].out, ColumnId(0));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(h.base) % 64, 0u);
  EXPECT_EQ(h.stride % 16, 0);
  EXPECT_NE(h.stride * 4 % 4096, 0);
  for (Row r = 0; r < 100; ++r) {
    for (int32_t u = 0; u < 1024; ++u) ASSERT_EQ(h.At(r)[u], 0.0f);
  }
}

TEST(CpuMemoryTest, FloatsOfARowLieSideBySideAndIntegersAreDense) {
  const std::shared_ptr<Model> model = testing::OneCellModel(testing::DecodeCell(24, 40));
  CpuMemory memory(Best(), 1, 0);
  const auto loaded = memory.Load(*model, Rows(*model, 100));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const TableId left = model->types[0].out;
  const auto& cpu = static_cast<const CpuLoadedModel&>(**loaded);
  const ColumnArray& word = cpu.column(left, model->table(left).Find("word"));
  EXPECT_EQ(word.stride, 1);
  EXPECT_EQ(cpu.host_column(left, model->table(left).Find("word")).data(), word.Int32At(0));

  const std::shared_ptr<Model> lstm = testing::OneCellModel(testing::LstmCell(3, 20));
  const auto state = memory.Load(*lstm, Rows(*lstm, 100));
  ASSERT_TRUE(state.ok()) << state.status();
  const auto& rows = static_cast<const CpuLoadedModel&>(**state);
  const ColumnArray& h = rows.column(lstm->types[0].out, ColumnId(0));
  const ColumnArray& c = rows.column(lstm->types[0].out, ColumnId(1));
  EXPECT_EQ(c.base - h.base, 32);  // 20 floats in whole lines
  EXPECT_EQ(h.stride, c.stride);
  EXPECT_EQ(h.stride, 64);
  EXPECT_NE(h.stride * 4 % 4096, 0);
}

TEST(CpuMemoryTest, LoadingCountsItsBytes) {
  const std::shared_ptr<Model> model = testing::OneCellModel(testing::LstmCell(16, 64));
  CpuMemory memory(Best(), 2, 0);
  const auto loaded = memory.Load(*model, Rows(*model, 1000));
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ((*loaded)->weight_bytes(), (16 + 64) * 4 * 64 * 4);
  EXPECT_GE((*loaded)->row_bytes(), 1000 * (64 + 64 + 16) * 4);
}

TEST(CpuMemoryTest, FoldingTakesItsBudgetAndNoMore) {
  const std::shared_ptr<Model> model = testing::OneCellModel(testing::TokenLstmCell(500, 32, 64));
  const int64_t table = int64_t{500} * (4 * 64 + 0) * 4;
  int64_t bytes[3];
  const int64_t budgets[3] = {0, table / 2, 4 * table};
  for (int i = 0; i < 3; ++i) {
    CpuMemory memory(Best(), 1, budgets[i]);
    const auto loaded = memory.Load(*model, Rows(*model, 8));
    ASSERT_TRUE(loaded.ok());
    bytes[i] = (*loaded)->weight_bytes();
  }
  EXPECT_EQ(bytes[0], bytes[1]);
  EXPECT_GE(bytes[2], bytes[0] + table - 32 * 4 * 64 * 4);
}

TEST(CpuMemoryTest, AllModelsShareOneBudgetAndGiveBackWhatTheyTook) {
  const std::shared_ptr<Model> model = testing::OneCellModel(testing::TokenLstmCell(500, 32, 64));
  const int64_t table = int64_t{500} * (4 * 64) * 4;
  CpuMemory memory(Best(), 1, table + table / 2);
  const auto load = [&] { return *memory.Load(*model, Rows(*model, 8)); };
  const std::string offer =
      fmt::format("table row x matrix of \"{}\" ({} bytes, 0.26 multiply-adds saved a byte)",
                  model->types[0].name, table);
  const std::string& folded = offer;
  std::unique_ptr<LoadedModel> first = load();
  EXPECT_EQ(first->folded(), folded);
  std::unique_ptr<LoadedModel> second = load();
  EXPECT_EQ(second->folded(), "nothing; no room for " + offer);
  EXPECT_LT(second->weight_bytes(), first->weight_bytes());
  first.reset();
  EXPECT_EQ(load()->folded(), folded);
  EXPECT_EQ(load()->folded(), folded);  // the one before it is gone
}

// Three models of one width, "a" the least worth a byte and "c" the most, and of a fourth that no device compiles.
struct Rivals {
  Rivals() {
    for (const auto& [name, embedding] : {std::pair("a", 8), {"b", 16}, {"c", 32}}) {
      models.push_back(testing::OneCellModel(testing::TokenLstmCell(500, embedding, 64)));
      models.back()->name = name;
    }
    testing::CellBuilder narrow("narrow");
    narrow.Leave("y", narrow.Read("x", "x", 3, ElementType::kBf16));
    models.push_back(testing::OneCellModel(narrow.Build()));
    models.back()->name = "narrow";
  }
  static constexpr int64_t kTable = int64_t{500} * (4 * 64) * 4;

  std::vector<std::shared_ptr<Model>> models;
};

bool IsFolded(const LoadedModel& loaded) { return loaded.folded().substr(0, 9) == "table row"; }

TEST(CpuMemoryTest, ModelsThatAreExpectedShareTheBudgetByWorthWhateverTheirOrder) {
  const Rivals rivals;
  std::vector<int> order = {0, 1, 2, 3};
  do {
    CpuMemory memory(Best(), 1, 2 * Rivals::kTable + 1);
    std::vector<const Model*> expected;
    for (const int m : order) expected.push_back(rivals.models[static_cast<size_t>(m)].get());
    memory.Expect(expected);
    std::map<std::string, bool> folded;
    std::vector<std::unique_ptr<LoadedModel>> loaded;
    for (const Model* const model : expected) {
      auto made = memory.Load(*model, Rows(*model, 8));
      EXPECT_EQ(made.ok(), model->name != "narrow");
      if (!made.ok()) continue;
      folded[model->name] = IsFolded(**made);
      EXPECT_EQ(memory.Account(*model)->types[0].weight_bytes, (*made)->weight_bytes());
      loaded.push_back(*std::move(made));
    }
    EXPECT_EQ(folded, (std::map<std::string, bool>{{"a", false}, {"b", true}, {"c", true}}));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(CpuMemoryTest, ModelsOfEqualWorthGetTheBudgetByName) {
  for (const bool backwards : {false, true}) {
    const std::shared_ptr<Model> x = testing::OneCellModel(testing::TokenLstmCell(500, 32, 64));
    const std::shared_ptr<Model> y = testing::OneCellModel(testing::TokenLstmCell(500, 32, 64));
    x->name = "x";
    y->name = "y";
    CpuMemory memory(Best(), 1, Rivals::kTable);
    memory.Expect(backwards ? std::vector<const Model*>{y.get(), x.get()}
                            : std::vector<const Model*>{x.get(), y.get()});
    const auto second = memory.Load(*y, Rows(*y, 8)), first = memory.Load(*x, Rows(*x, 8));
    EXPECT_TRUE(IsFolded(**first));
    EXPECT_FALSE(IsFolded(**second));
  }
}

TEST(CpuMemoryTest, WhatIsKeptForAModelIsNobodyElsesUntilOthersAreExpected) {
  const Rivals rivals;
  const Model &a = *rivals.models[0], &b = *rivals.models[1], &c = *rivals.models[2];
  CpuMemory memory(Best(), 1, Rivals::kTable);
  memory.Expect({&c});
  auto late = memory.Load(a, Rows(a, 8));
  EXPECT_FALSE(IsFolded(**late));
  EXPECT_EQ((*late)->folded(),
            fmt::format("nothing; no room for table row x matrix of \"{}\" ({} bytes, 0.06 "
                        "multiply-adds saved a byte)",
                        a.types[0].name, Rivals::kTable));
  auto expected = memory.Load(c, Rows(c, 8));
  EXPECT_TRUE(IsFolded(**expected));
  memory.Expect({});
  // Worth more than what is left, it takes nothing from who serves.
  EXPECT_FALSE(IsFolded(**memory.Load(b, Rows(b, 8))));
  expected->reset();
  EXPECT_TRUE(IsFolded(**memory.Load(a, Rows(a, 8))));
  memory.Expect({&c});  // and never comes
  EXPECT_FALSE(IsFolded(**memory.Load(b, Rows(b, 8))));
  memory.Expect({});
  EXPECT_TRUE(IsFolded(**memory.Load(b, Rows(b, 8))));
}

TEST(CpuMemoryTest, TheAccountOfALoadedModelIsOfWhatItTookAndNotOfWhatIsLeft) {
  const std::shared_ptr<Model> model = testing::OneCellModel(testing::TokenLstmCell(500, 32, 64));
  const std::shared_ptr<Model> other = testing::OneCellModel(testing::TokenLstmCell(500, 32, 64));
  CpuMemory memory(Best(), 1, int64_t{500} * (4 * 64) * 4);
  const auto prepared = [&](const Model& of) {
    return memory.Account(of)->types[0].prepared.size();
  };
  EXPECT_EQ(prepared(*model), 1u);
  const auto loaded = memory.Load(*model, Rows(*model, 8));
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(prepared(*model), 1u);
  EXPECT_EQ(prepared(*other), 0u);
}

TEST(CpuMemoryTest, AModelThatIsRefusedTakesNothingOfTheBudget) {
  const std::shared_ptr<Model> model = testing::OneCellModel(testing::TokenLstmCell(500, 32, 64));
  int64_t available = 1;
  CpuMemory memory(Best(), 1, 500 * 4 * 64 * 4, [&] { return available; });
  EXPECT_FALSE(memory.Load(*model, Rows(*model, 8)).ok());
  available = int64_t{1} << 30;
  EXPECT_THAT((*memory.Load(*model, Rows(*model, 8)))->folded(),
              ::testing::StartsWith("table row"));
}

TEST(CpuMemoryTest, ABudgetThatCannotWorkIsRefused) {
  const std::shared_ptr<Model> model = testing::OneCellModel(testing::LstmCell(3, 5));
  CpuMemory memory(Best(), 1, 0);
  EXPECT_EQ(memory.Load(*model, {}).status().message(),
            "model \"lstm\": rows for 0 tables, it has 2");
  EXPECT_EQ(memory.Load(*model, Rows(*model, 1)).status().message(),
            "model \"lstm\": table \"lstm_0\": 1 rows, the least are 2: zeros and one to use");
}

TEST(CpuMemoryTest, MoreThanTheMachineHasIsRefusedWithBothNumbers) {
  const std::shared_ptr<Model> model = testing::OneCellModel(testing::LstmCell(3, 256));
  CpuMemory memory(Best(), 1, 0);
  const absl::Status status = memory.Load(*model, Rows(*model, 2'000'000'000)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("bytes, "), std::string::npos) << status;
}

// A node needs a matrix of n x n floats for itself, and leaves one.
std::shared_ptr<Model> MatrixModel(int32_t n) {
  testing::CellBuilder b("outer");
  const ValueId x = b.Read("x", "x", n), y = b.Read("y", "y", n);
  const ValueId outer = b.MatMul(b.Op1(OpKind::kTranspose, x), b.Op1(OpKind::kTranspose, y));
  b.Leave("sum", b.Op1(OpKind::kSum, outer));
  return testing::OneCellModel(b.Build());
}

TEST(CpuMemoryTest, ScratchIsCountedForEveryDevice) {
  const std::shared_ptr<Model> model = MatrixModel(200);
  int64_t rows[2];
  for (const int devices : {1, 2}) {
    CpuMemory memory(Best(), devices, 0);
    const auto loaded = memory.Load(*model, Rows(*model, 8));
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const auto& cpu = static_cast<const CpuLoadedModel&>(**loaded);
    EXPECT_EQ(cpu.scratch_bytes(), devices * cpu.scratch(0).bytes());
    EXPECT_GE(cpu.scratch(0).bytes(), int64_t{200} * 200 * 4);
    rows[devices - 1] = cpu.row_bytes() - cpu.scratch_bytes();
  }
  EXPECT_EQ(rows[0], rows[1]);
}

TEST(CpuMemoryTest, ADecoderOverThirtyThousandWordsKeepsNoRowOfThem) {
  const auto scratch = [](bool keep_logits) {
    testing::CellBuilder b("decoder");
    const ValueId logits = b.MatMul(b.Read("x", "x", 8), b.Matrix("W", 30'000, 8));
    b.Leave("word", b.Op1(OpKind::kArgMax, logits));
    if (keep_logits) b.Leave("entropy", b.Op1(OpKind::kSum, b.Op1(OpKind::kSoftmax, logits)));
    const std::shared_ptr<Model> model = testing::OneCellModel(b.Build());
    CpuMemory memory(Best(), 1, 0);
    const auto loaded = memory.Load(*model, Rows(*model, 8));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return static_cast<const CpuLoadedModel&>(**loaded).scratch_bytes();
  };
  EXPECT_EQ(scratch(false), 0);
  EXPECT_GT(scratch(true), int64_t{512} * 30'000 * 4);
}

TEST(CpuMemoryTest, ScratchBeyondWhatIsAvailableIsRefusedWithBothNumbersBeforeItIsAllocated) {
  const std::shared_ptr<Model> model = MatrixModel(16384);  // 1 GiB a node
  const int64_t available = int64_t{1} << 30;
  CpuMemory memory(Best(), 64, 0, [&] { return available; });  // 64 GiB
  const absl::Status status = memory.Load(*model, Rows(*model, 8)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find(fmt::format("scratch {},", 64 * ((int64_t{1} << 30) + 64))),
            std::string::npos)
      << status;
  EXPECT_NE(status.message().find(" bytes, 1073741824 are available"), std::string::npos) << status;
}

TEST(CpuMemoryTest, AModelThatFitsToTheByteIsLoadedAndOneByteLessIsRefused) {
  const std::shared_ptr<Model> model = testing::OneCellModel(testing::TokenLstmCell(500, 32, 64));
  int64_t available = 0;
  CpuMemory memory(Best(), 2, int64_t{1} << 30, [&] { return available; });
  const std::string told(memory.Load(*model, Rows(*model, 8)).status().message());
  const std::string before = "model \"" + model->name + "\": needs ";
  ASSERT_TRUE(told.starts_with(before)) << told;
  const int64_t asked = std::stoll(told.substr(before.size()));
  available = asked - 1;
  EXPECT_EQ(memory.Load(*model, Rows(*model, 8)).status().code(),
            absl::StatusCode::kResourceExhausted);
  available = asked;
  const auto loaded = memory.Load(*model, Rows(*model, 8));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_LE((*loaded)->weight_bytes() + (*loaded)->row_bytes(), asked);
}

TEST(CpuMemoryTest, ACellFoldedAsAWholeIsCountedWithWhatItTakesWhileItIsMade) {
  testing::CellBuilder b("leaf");
  const ValueId token = b.Read("token", "token", 1, ElementType::kInt32);
  const ValueId x = b.Lookup(b.Matrix("E", 3, 2000), token);
  b.Leave("h", b.Tanh(b.MatMul(x, b.Matrix("W", 1600, 2000))));
  const std::shared_ptr<Model> model = testing::OneCellModel(b.Build());
  const int64_t weights = int64_t{1600} * 2000 * 4;
  int64_t available = weights;  // enough for the rows of three words, but they are made by all of W
  CpuMemory memory(Best(), 1, int64_t{1} << 30, [&] { return available; });
  EXPECT_EQ(memory.Load(*model, Rows(*model, 8)).status().code(),
            absl::StatusCode::kResourceExhausted);
  available = 2 * weights;
  const auto loaded = memory.Load(*model, Rows(*model, 8));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_LT((*loaded)->weight_bytes(), weights / 100);
  EXPECT_EQ((*loaded)->folded(),
            fmt::format("all of \"{}\" ({} bytes, 2670.67 multiply-adds saved a byte)",
                        model->types[0].name, (*loaded)->weight_bytes()));
}

TEST(CpuMemoryTest, AModelThatDoesNotFitTogetherIsRefused) {
  const std::shared_ptr<Model> model = testing::OneCellModel(testing::LstmCell(3, 5));
  model->types[0].weights[0].shape = Shape::Matrix(1, 1);
  CpuMemory memory(Best(), 1, 0);
  EXPECT_EQ(memory.Load(*model, Rows(*model, 8)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CpuMemoryTest, ACellThatCannotBeCompiledIsRefusedByName) {
  testing::CellBuilder b("narrow");
  b.Leave("y", b.Read("x", "x", 3, ElementType::kBf16));
  const std::shared_ptr<Model> model = testing::OneCellModel(b.Build());
  CpuMemory memory(Best(), 1, 0);
  const absl::Status status = memory.Load(*model, Rows(*model, 8)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("cell \"narrow\""), std::string::npos) << status;
}

// So its time is that of a task whose rows hold something.
TEST(CpuDeviceTest, AMeasuredTaskReadsNumbersWhereItNamesZerosAndIsSparedNothing) {
  const std::shared_ptr<Model> model = testing::OneCellModel(testing::LstmCell(3, 16));
  auto set = CpuDevices({{AllowedCpus().front()}}, CpuOptions());
  ASSERT_TRUE(set.ok()) << set.status();
  auto loaded = set->memories[0]->Load(*model, Rows(*model, 8));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto& cpu = static_cast<const CpuLoadedModel&>(**loaded);
  const CellType& type = model->types[0];
  Device& device = *set->devices[0];
  constexpr Row kWritten = 3, kLeft = 4;
  const auto left = [&](Row read, bool measured) {
    std::vector<float> h(16);
    CopyOut copy = {reinterpret_cast<std::byte*>(h.data()), ColumnId(0), kLeft};
    BatchedTask task;
    task.model = loaded->get();
    task.cell = type.id;
    task.num_nodes = 1;
    task.inputs[0].rows = task.inputs[1].rows = &read;
    task.output_rows = &kLeft;
    task.copies_out = &copy;
    task.num_copies_out = 1;
    task.measured = measured;
    task.sequence = device.Signal() + 1;
    BatchedTask* const pointer = &task;
    EXPECT_EQ(device.Enqueue({&pointer, 1}), 1);
    while (!SignalPassed(device.Signal(), task.sequence)) device.Advance();
    return h;
  };
  for (const TableId table : type.in) {
    for (const Column& c : model->table(table).columns) {
      const ColumnArray& column = cpu.column(table, model->table(table).Find(c.name));
      std::copy_n(column.At(cpu.trash_row(table)), c.width, column.At(kWritten));
    }
  }
  EXPECT_NE(left(kZeroRow, true), left(kZeroRow, false));
  EXPECT_EQ(left(kZeroRow, true), left(kWritten, false));
}

TEST(CpuDeviceTest, DevicesOfOneNodeShareAMemoryAndSayWhereTheyAre) {
  const absl::StatusOr<DeviceSet> set = CpuDevices({{0}, {0, 1}}, {});
  ASSERT_TRUE(set.ok());
  ASSERT_EQ(set->devices.size(), 2u);
  EXPECT_EQ(set->devices[0]->info().memory, set->devices[1]->info().memory);
  EXPECT_EQ(set->devices[0]->info().name, "cpu:0");
  EXPECT_EQ(set->devices[1]->info().name, "cpu:0-1");
  EXPECT_EQ(set->devices[1]->info().cores, 2);
  EXPECT_TRUE(set->devices[0]->info().computes_in_advance);
  EXPECT_GE(set->devices[0]->task_memory().size(), size_t{1} << 20);
}

TEST(CpuDeviceTest, ASetWithoutACpuIsRefused) {
  EXPECT_EQ(CpuDevices({}, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CpuDevices({{}}, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cellbatch
