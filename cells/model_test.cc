#include "cells/model.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>

namespace cellbatch {
namespace {

// One cell type "linear": y = W x, x from table "x", y into table "y".
Model Linear() {
  std::vector<Op> ops = {{.kind = OpKind::kInput},
                         {.kind = OpKind::kParameter},
                         {.kind = OpKind::kMatMul, .args = {ValueId(0), ValueId(1)}}};
  absl::StatusOr<CellDefinition> cell =
      CellDefinition::Create("linear", ops, {{"x", {{"x", ElementType::kFp32, 2}}}},
                             {{"W", Shape::Matrix(3, 2)}}, {{"y", ValueId(2)}}, std::nullopt);
  EXPECT_TRUE(cell.ok()) << cell.status();
  Model model;
  model.name = "m";
  model.tables = {{"x", {{"x", ElementType::kFp32, 2}}}, {"y", {{"y", ElementType::kFp32, 3}}}};
  CellType type;
  type.id = CellTypeId(0);
  type.name = "linear";
  type.definition = std::make_shared<const CellDefinition>(*std::move(cell));
  type.weights = {
      {std::shared_ptr<const float[]>(new float[6]{1, 2, 3, 4, 5, 6}), Shape::Matrix(3, 2)}};
  type.in = {TableId(0)};
  type.out = TableId(1);
  model.types = {type};
  return model;
}

std::string Error(const Model& model) {
  const absl::Status status = model.Validate();
  if (status.ok()) return "";
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ModelTest, AModelThatFitsTogetherIsValid) {
  EXPECT_EQ(Error(Linear()), "");
  EXPECT_EQ(Linear().table(TableId(1)).row_bytes(), 12);
  EXPECT_EQ(Linear().table(TableId(1)).Find("y"), ColumnId(0));
  EXPECT_FALSE(Linear().table(TableId(1)).Find("x").valid());
}

TEST(ModelTest, IdsAreDenseAndNamesUnique) {
  Model m = Linear();
  m.types[0].id = CellTypeId(1);
  EXPECT_EQ(Error(m), "model \"m\": cell type \"linear\" has id 1, it is number 0");
  m = Linear();
  m.types.push_back(m.types[0]);
  m.types[1].id = CellTypeId(1);
  EXPECT_EQ(Error(m), "model \"m\": two cell types are named \"linear\"");
  m.types[1].name = "";
  EXPECT_EQ(Error(m), "model \"m\": cell type 1 has no name");
  m = Linear();
  m.types[0].definition = nullptr;
  EXPECT_EQ(Error(m), "model \"m\": cell type \"linear\" has no definition");
}

TEST(ModelTest, WeightsHaveTheParametersShapeAndFiniteValues) {
  Model m = Linear();
  m.types[0].weights[0].shape = Shape::Matrix(2, 3);
  EXPECT_EQ(Error(m),
            "model \"m\": cell type \"linear\": parameter \"W\" is [3, 2], its weights are [2, 3]");
  m = Linear();
  m.types[0].weights[0].data = nullptr;
  EXPECT_EQ(Error(m), "model \"m\": cell type \"linear\": parameter \"W\" has no weights");
  m.types[0].weights[0].data.reset(
      new float[6]{1, 2, 3, 4, std::numeric_limits<float>::infinity(), 6});
  EXPECT_EQ(Error(m), "model \"m\": cell type \"linear\": parameter \"W\": element 4 is inf");
  m.types[0].weights[0].data.reset(
      new float[6]{std::numeric_limits<float>::quiet_NaN(), 2, 3, 4, 5, 6});
  EXPECT_EQ(Error(m), "model \"m\": cell type \"linear\": parameter \"W\": element 0 is nan");
  m.types[0].weights.resize(2);
  EXPECT_EQ(Error(m),
            "model \"m\": cell type \"linear\": 2 weights, cell \"linear\" has 1 parameters");
  m.types[0].weights.clear();
  EXPECT_EQ(Error(m),
            "model \"m\": cell type \"linear\": 0 weights, cell \"linear\" has 1 parameters");
}

TEST(ModelTest, InputsReadColumnsThatTheirTableHas) {
  Model m = Linear();
  m.tables[0].columns[0].width = 4;
  EXPECT_EQ(Error(m),
            "model \"m\": cell type \"linear\": input \"x\" reads column \"x\" as FP32[2], table "
            "\"x\" has FP32[4]");
  m.types[0].in[0] = TableId(1);
  EXPECT_EQ(Error(m),
            "model \"m\": cell type \"linear\": input \"x\" reads column \"x\", table \"y\" has "
            "{y FP32[3]}");
  m.types[0].in[0] = TableId(2);
  EXPECT_EQ(Error(m), "model \"m\": cell type \"linear\": input \"x\" reads table 2, there are 2");
  m.types[0].in = {TableId(0), TableId(0)};
  EXPECT_EQ(Error(m),
            "model \"m\": cell type \"linear\": tables for 2 inputs, cell \"linear\" has 1");
  m.types[0].in.clear();
  EXPECT_EQ(Error(m),
            "model \"m\": cell type \"linear\": tables for 0 inputs, cell \"linear\" has 1");
}

TEST(ModelTest, ATypeLeavesExactlyItsTablesColumns) {
  Model m = Linear();
  m.tables[1].columns[0].name = "z";
  EXPECT_EQ(Error(m),
            "model \"m\": cell type \"linear\" leaves {y FP32[3]}, table \"y\" has {z FP32[3]}");
  m.tables[1].columns = {{"y", ElementType::kFp32, 3}, {"z", ElementType::kInt32, 1}};
  EXPECT_EQ(Error(m),
            "model \"m\": cell type \"linear\" leaves {y FP32[3]}, table \"y\" has {y FP32[3], z "
            "INT32[1]}");
  m.types[0].out = TableId();
  EXPECT_EQ(Error(m), "model \"m\": cell type \"linear\" writes table -1, there are 2");
}

TEST(ModelTest, LimitsMakeSense) {
  Model m = Linear();
  m.types[0].min_batch = 0;
  EXPECT_EQ(Error(m), "model \"m\": cell type \"linear\": min_batch is 0, the least is 1");
  m.types[0].min_batch = 8;
  m.types[0].max_batch = 4;
  EXPECT_EQ(Error(m), "model \"m\": cell type \"linear\": max_batch is 4, min_batch is 8");
  m = Linear();
  for (const auto& [weight, text] : {std::pair(0.0, "0"), std::pair(-1.0, "-1"),
                                     std::pair(std::numeric_limits<double>::quiet_NaN(), "nan")}) {
    m.weight = weight;
    EXPECT_EQ(Error(m), "model \"m\": weight is " + std::string(text) + ", it must be above 0");
  }
}

TEST(ModelTest, EveryLimitMayBeReachedAndNoneBePassed) {
  Model m = Linear();
  m.types[0].min_batch = m.types[0].max_batch = 4;
  m.priority_levels = m.default_priority_level = kMostPriorityLevels;
  for (int i = 1; i < kMaxColumns; ++i) {
    m.tables[0].columns.push_back({"x" + std::to_string(i), ElementType::kFp32, 1});
  }
  EXPECT_EQ(Error(m), "");
  m.default_priority_level = 0;
  EXPECT_EQ(Error(m), "model \"m\": default_priority_level is 0, allowed are 1 to 256");
  m.default_priority_level = kMostPriorityLevels + 1;
  EXPECT_EQ(Error(m), "model \"m\": default_priority_level is 257, allowed are 1 to 256");
  for (const int levels : {0, kMostPriorityLevels + 1}) {
    m.priority_levels = levels;
    EXPECT_EQ(Error(m), "model \"m\": priority_levels is " + std::to_string(levels) +
                            ", allowed are 1 to 256");
  }
  m.tables[0].columns.push_back({"more", ElementType::kFp32, 1});
  EXPECT_EQ(Error(m), "model \"m\": table \"x\" has 17 columns, allowed are 1 to 16");
  m.tables[0].columns = {{"x", ElementType::kFp32, 0}};
  EXPECT_EQ(Error(m), "model \"m\": table \"x\": column \"x\" has 0 elements");
}

TEST(ModelTest, ATypeIsInItsModelsPrecisionAndCarriesWhatItLeaves) {
  Model m = Linear();
  m.types[0].precision = Precision::kBf16;
  EXPECT_EQ(Error(m), "model \"m\": cell type \"linear\" is in BF16, the model in FP32");
  m = Linear();
  const std::vector<Op> ops = {{.kind = OpKind::kInput}};
  const Column h = {"h", ElementType::kFp32, 2};
  absl::StatusOr<CellDefinition> cell =
      CellDefinition::Create("chain", ops, {{"before", {h}}}, {}, {{"h", ValueId(0)}}, InputId(0));
  ASSERT_TRUE(cell.ok()) << cell.status();
  m.tables = {{"one", {h}}, {"other", {h}}};
  m.types[0].definition = std::make_shared<const CellDefinition>(*std::move(cell));
  m.types[0].weights = {};
  EXPECT_EQ(
      Error(m),
      "model \"m\": cell type \"linear\": carry \"before\" reads table 0, the cell writes table "
      "1");
  m.types[0].out = TableId(0);
  EXPECT_EQ(Error(m), "");
}

TEST(ModelTest, TablesHaveNamedColumns) {
  Model m = Linear();
  m.tables[1].columns.push_back(m.tables[1].columns[0]);
  EXPECT_EQ(Error(m), "model \"m\": table \"y\" has two columns named \"y\"");
  m.tables[1].columns.clear();
  EXPECT_EQ(Error(m), "model \"m\": table \"y\" has 0 columns, allowed are 1 to 16");
  m.tables[0].name = "";
  EXPECT_EQ(Error(m), "model \"m\": table 0 has no name");
}

TEST(ModelTest, WireTypesHaveKServesNames) {
  EXPECT_STREQ(Name(WireType::kInt32), "INT32");
  EXPECT_STREQ(Name(WireType::kInt64), "INT64");
  EXPECT_STREQ(Name(WireType::kFp32), "FP32");
  EXPECT_STREQ(Name(WireType::kBytes), "BYTES");
}

}  // namespace
}  // namespace cellbatch
