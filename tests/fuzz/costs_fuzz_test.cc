// Damaged files of measured costs are refused with the file's name, or say a time for every task that a world may ask for.
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <utility>

#include "cells/any_cell.h"
#include "server/learn/measured_costs.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"

namespace cellbatch {
namespace {

constexpr uint64_t kSeed = 20261122;

Model TwoTypes() {
  const std::vector<Column> h = {{"h", ElementType::kFp32, 4}};
  Model model;
  for (const char* const name : {"leaf", "inner"}) {
    CellType type;
    type.id = CellTypeId(static_cast<int64_t>(model.types.size()));
    type.name = name;
    type.definition = testing::AnyCell(name, {{"x", h}}, h);
    type.in = {TableId(0)};
    type.out = TableId(0);
    model.types.push_back(type);
  }
  return model;
}

MeasuredCosts Good() {
  MeasuredCosts costs;
  costs.alone = *TaskCosts::Of({{64, {{1, 50'000}, {2, 51'000}, {64, 400'000}}},
                                {16, {{1, 20'000}, {8, 31'000}, {16, 60'000}}, 24}});
  costs.served = {1.25, 3.5};
  costs.task_overhead_ns = 2'600;
  costs.wake_ns = 22'000;
  costs.answer_ns = 60'000;
  costs.origin = "measured on cpu:0-1";
  return costs;
}

TEST(CostsFuzzTest, WhatIsWrittenIsReadBack) {
  const Model model = TwoTypes();
  const auto read = ParseCosts(CostsText(Good(), model), "costs.textproto", model);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->served, Good().served);
  EXPECT_EQ(read->task_overhead_ns, 2'600);
  EXPECT_EQ(read->wake_ns, 22'000);
  EXPECT_EQ(read->answer_ns, 60'000);
  EXPECT_EQ(read->origin, "measured on cpu:0-1");
  EXPECT_EQ(read->alone.types()[1].max_batch, 16);
  EXPECT_EQ(read->alone.types()[0].peak_batch, 0);
  EXPECT_EQ(read->alone.types()[1].peak_batch, 24);
  for (const int32_t nodes : {1, 2, 7, 40, 100}) {
    for (const int type : {0, 1}) {
      EXPECT_EQ(read->alone.Ns(CellTypeId(type), nodes), Good().alone.Ns(CellTypeId(type), nodes));
    }
  }
  EXPECT_EQ(read->InWorld().Ns(CellTypeId(0), 1), 50'000 * 5 / 4 + 2'600);
}

TEST(CostsFuzzTest, WhatNoDeviceTakesIsRefusedWithItsBound) {
  const Model model = TwoTypes();
  const std::string good = CostsText(Good(), model);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << " is not in\n" << text;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    const auto read = ParseCosts(text, "c", model);
    return read.ok() ? "taken" : std::string(read.status().message());
  };
  for (const std::string name : {"task_overhead_ns: 2600", "wake_ns: 22000", "answer_ns: 60000"}) {
    const std::string field = name.substr(0, name.find(' ') + 1);
    EXPECT_EQ(with(name, field + "60000000000"), "taken");
    EXPECT_EQ(with(name, field + "60000000001"),
              "c: an overhead of 60000000001 ns, allowed are 0 to 60000000000");
    EXPECT_EQ(with(name, field + "-1"), "c: an overhead of -1 ns, allowed are 0 to 60000000000");
  }
  EXPECT_EQ(with("ns: 400000", "ns: 60000000001"),
            "c: \"leaf\": a task of 60000000001 ns, allowed are 1 to 60000000000");
  EXPECT_EQ(with("served: 1.25", ""), "taken") << "as long as alone";
  EXPECT_EQ(with("served: 1.25", "served: 1000"), "taken");
  for (const std::string served : {"1000.5", "-1", "nan", "inf", "0.0005"}) {
    EXPECT_EQ(with("served: 1.25", "served: " + served),
              "c: \"leaf\" takes " + served +
                  " times as long when it is served, allowed are 0.001 to 1000");
  }
}

TEST(CostsFuzzTest, CostsOfAnotherModelAreRefusedByName) {
  const Model model = TwoTypes();
  Model other = model;
  other.types[1].name = "other";
  const auto read = ParseCosts(CostsText(Good(), model), "costs.textproto", other);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().message(),
            "costs.textproto: cell type 1 is \"inner\", the model's is \"other\"");
  other.types.pop_back();
  EXPECT_EQ(ParseCosts(CostsText(Good(), model), "costs.textproto", other).status().message(),
            "costs.textproto: costs of 2 cell types, the model has 1");
}

TEST(CostsFuzzTest, DamagedCostsAreRefusedOrSayATimeForEveryTask) {
  std::cout << "seed " << kSeed << "\n";
  const Model model = TwoTypes();
  const std::string good = CostsText(Good(), model);
  Mutator mutator(kSeed, {"types {", "}", "points { batch: 2 ns: 5 }", "max_batch: 0", "served: -1",
                          "served: nan", "served: 1e300", "ns: 9223372036854775807",
                          "batch: 2147483647", "wake_ns: -5", "name: \"leaf\"", "# a comment"});
  int taken = 0, refused = 0;
  FuzzBudget budget(2000);
  while (budget.Next() && !HasFailure()) {
    const auto costs = ParseCosts(mutator.Mutate(good), "costs.textproto", model);
    if (!costs.ok()) {
      ++refused;
      EXPECT_EQ(costs.status().code(), absl::StatusCode::kInvalidArgument) << costs.status();
      EXPECT_EQ(costs.status().message().find("costs.textproto:"), 0u) << costs.status();
      continue;
    }
    ++taken;
    const TaskCosts in_world = costs->InWorld();
    for (const int type : {0, 1}) {
      for (const int32_t nodes : {1, 3, 64, 4096}) {
        EXPECT_GT(in_world.Ns(CellTypeId(type), nodes), 0);
      }
    }
  }
  std::cout << taken << " taken, " << refused << " refused\n";
  EXPECT_GT(taken, budget.cases() / 60);
  EXPECT_GT(refused, budget.cases() / 6);
}

}  // namespace
}  // namespace cellbatch
