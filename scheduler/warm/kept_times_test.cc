#include "scheduler/warm/kept_times.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cells/any_cell.h"
#include "gtest/gtest.h"
#include "scheduler/warm/map_shelf.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

// A memory that says nothing of what it makes of a model, and does nothing.
class SilentMemory final : public Memory {
 public:
  absl::StatusOr<std::unique_ptr<LoadedModel>> Load(const Model&, const RowBudget&) override {
    return absl::UnimplementedError("loads nothing");
  }
};

// A device that says what it is, and does nothing.
class NamedDevice final : public Device {
 public:
  NamedDevice(Memory* memory, std::string kind)
      : info_{.name = "cpu:0", .memory = memory, .kind = std::move(kind)} {}
  const DeviceInfo& info() const override { return info_; }
  absl::Span<std::byte> task_memory() override { return {}; }
  int Enqueue(absl::Span<BatchedTask* const>) override { return 0; }
  bool Advance() override { return false; }
  uint64_t Signal() const override { return 0; }
  absl::Status Health() const override { return absl::OkStatus(); }
  void Abandon() override {}

 private:
  const DeviceInfo info_;
};

std::string KeyText(const Model& model, const ModelAccount& account = {}, int32_t limit = 512,
                    std::string kind = "cpu") {
  return KeyOf({.name = "cpu:0", .kind = std::move(kind)}, model, CellTypeId(0), account, limit)
      .depends_on;
}

TEST(CalibrationKeyTest, WhatTChangesWithChangesIt) {
  const auto model = testing::OneCellModel(testing::LstmCell(4, 8));
  const std::string key = KeyText(*model);
  EXPECT_EQ(KeyText(*testing::OneCellModel(testing::LstmCell(4, 8))), key);
  EXPECT_NE(KeyText(*testing::OneCellModel(testing::LstmCell(4, 9))), key) << "units";
  EXPECT_NE(KeyText(*testing::OneCellModel(testing::LstmCell(5, 8))), key) << "width";
  EXPECT_NE(KeyText(*testing::OneCellModel(testing::LstmCellByGate(4, 8))), key) << "definition";
  EXPECT_NE(KeyText(*testing::OneCellModel(testing::GruCell(4, 8))), key) << "cell";
  EXPECT_NE(KeyText(*model, {}, 256), key) << "limit";
  EXPECT_NE(KeyText(*model, {}, 512, "another cpu"), key) << "machine";
  ModelAccount account = {.kernels = "avx2", .types = {{}}};
  const std::string with_account = KeyText(*model, account);
  EXPECT_NE(with_account, key) << "kernels";
  const auto another = [&](const std::function<void(CellAccount&)>& change) {
    ModelAccount changed = account;
    change(changed.types[0]);
    return KeyText(*model, changed);
  };
  const std::string prepared = another([](CellAccount& cell) {
    cell.prepared.push_back({"folded table", 64});
  });
  EXPECT_NE(prepared, with_account) << "what is made at load";
  EXPECT_NE(another([](CellAccount& cell) {
              cell.prepared.push_back({"folded table", 65});
            }),
            prepared);
  EXPECT_NE(another([](CellAccount& cell) { cell.steps = {"matmul"}; }), with_account);
  EXPECT_NE(another([](CellAccount& cell) { cell.weight_bytes = 7; }), with_account);

  for (const std::function<void(Model&)>& change :
       std::initializer_list<std::function<void(Model&)>>{
           [](Model& m) { m.types[0].precision = Precision::kBf16; },
           [](Model& m) { m.types[0].max_batch = 20; },
           [](Model& m) { m.types[0].hoisted.emplace_back().units = 8; },
           [](Model& m) {
             TableSpec& out = m.tables[static_cast<size_t>(m.types[0].out.value())];
             out.columns.push_back({"more", ElementType::kFp32, 3});
           },
           [](Model& m) {  // what it carries lies in another table than what it leaves
             const TableSpec same = m.table(m.types[0].out);
             m.tables.push_back(same);
             m.types[0].out = TableId(static_cast<int64_t>(m.tables.size()) - 1);
           }}) {
    Model changed = *model;
    change(changed);
    EXPECT_NE(KeyText(changed), key);
  }
}

TEST(CalibrationKeyTest, RowsThatNobodyReadsAndSumsAreInIt) {
  const auto linear = testing::OneCellModel(testing::LinearCell(4, 8));
  Model wider = *linear;
  wider.tables[static_cast<size_t>(wider.types[0].out.value())].columns.push_back(
      {"more", ElementType::kFp32, 3});
  EXPECT_NE(KeyText(wider), KeyText(*linear));
  const std::vector<Column> h = {{"h", ElementType::kFp32, 4}};
  const auto with = [&](Arity arity) {
    return KeyText(*testing::OneCellModel(*testing::AnyCell("cell", {{"children", h, arity}}, h)));
  };
  EXPECT_NE(with(Arity::kSum), with(Arity::kOne));
}

TEST(CalibrationKeyTest, NamesAndWeightsDoNot) {
  const auto model = testing::OneCellModel(testing::LstmCell(4, 8));
  Model other = *model;
  other.name = "another";
  other.version = 7;
  other.types[0].name = "layer_1";
  other.types[0].weights = testing::RandomWeights(*other.types[0].definition, 99);
  EXPECT_EQ(KeyText(other), KeyText(*model));
}

class KeptTimesTest : public ::testing::Test {
 protected:
  // As AddModel does it; how many tasks it took.
  int Start(CalibrationShelf* shelf, bool tell = true, const char* kind = "cpu") {
    DeviceSet devices;
    devices.memories.push_back(std::make_unique<SilentMemory>());
    devices.devices.push_back(std::make_unique<NamedDevice>(devices.memories.front().get(), kind));
    Calibration calibration(*model_, {1 << 20}, 64, {0}, true);
    KeptTimes kept(shelf, *model_);
    kept.FindKeys(devices, calibration);
    if (tell) kept.Tell(calibration);
    int tasks = 0;
    for (; !calibration.done(); ++tasks) {
      const int32_t batch = calibration.Next(0)->batch;
      calibration.Started(0);
      calibration.Finished(0, 100'000 + 1000 * batch);
    }
    kept.Keep(calibration);
    return tasks;
  }

  const std::shared_ptr<Model> model_ = testing::OneCellModel(testing::LstmCell(4, 8));
  testing::MapShelf shelf_;
};

TEST_F(KeptTimesTest, TheSecondStartConfirmsWhatTheFirstMeasured) {
  const int first = Start(&shelf_);
  ASSERT_EQ(shelf_.kept.size(), 1u);
  EXPECT_EQ(shelf_.kept.begin()->second.front().task_ns, 101'000);
  EXPECT_LT(Start(&shelf_), first);
  EXPECT_EQ(shelf_.kept.size(), 1u);
}

TEST_F(KeptTimesTest, OnAnotherMachineItIsMeasuredAndBothAreKept) {
  const int first = Start(&shelf_);
  EXPECT_EQ(Start(&shelf_, /*tell=*/true, "another cpu"), first);
  EXPECT_EQ(shelf_.kept.size(), 2u);
}

// As under --record.
TEST_F(KeptTimesTest, WhoIsNotToldMeasuresAndKeepsIt) {
  const int first = Start(&shelf_, /*tell=*/false);
  EXPECT_EQ(shelf_.asked, 0);
  EXPECT_EQ(Start(&shelf_, /*tell=*/false), first);
  EXPECT_EQ(shelf_.kept.size(), 1u);
}

// Whose key it would be kept by did not measure it.
TEST_F(KeptTimesTest, WhatAnotherWorkerMeasuredIsNotKept) {
  for (const int failed : {1, 0}) {
    DeviceSet devices;
    devices.memories.push_back(std::make_unique<SilentMemory>());
    for (const char* kind : {"cpu", "cpu of more cores"}) {
      devices.devices.push_back(
          std::make_unique<NamedDevice>(devices.memories.front().get(), kind));
    }
    Calibration calibration(*model_, {1 << 20}, 64, {0, 0}, true);
    KeptTimes kept(&shelf_, *model_);
    kept.FindKeys(devices, calibration);
    calibration.WorkerFailed(failed);
    while (!calibration.done()) {
      calibration.Started(1 - failed);
      calibration.Finished(1 - failed, 100'000);
    }
    kept.Keep(calibration);
    EXPECT_EQ(shelf_.kept.size(), failed == 1 ? 1u : 0u);
    shelf_.kept.clear();
  }
}

TEST_F(KeptTimesTest, NothingIsKeptOfWhoCannotSayWhatItIs) {
  const int first = Start(&shelf_, /*tell=*/true, "");
  EXPECT_EQ(Start(&shelf_, /*tell=*/true, ""), first);
  EXPECT_EQ(Start(nullptr), first);
  EXPECT_EQ(shelf_.asked, 0);
  EXPECT_TRUE(shelf_.kept.empty());
}

}  // namespace
}  // namespace cellbatch
