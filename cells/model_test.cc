#include "cells/model.h"

#include <gtest/gtest.h>

#include <limits>

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
  m.types[0].in.clear();
  EXPECT_EQ(Error(m),
            "model \"m\": cell type \"linear\": tables for 0 inputs, cell \"linear\" has 1");
}

TEST(ModelTest, ATypeLeavesExactlyItsTablesColumns) {
  Model m = Linear();
  m.tables[1].columns.push_back({"z", ElementType::kInt32, 1});
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
  m.weight = 0;
  EXPECT_EQ(Error(m), "model \"m\": weight is 0, it must be above 0");
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
