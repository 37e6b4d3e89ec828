#include "tests/testing/builders.h"

#include <gtest/gtest.h>

#include <set>

namespace cellbatch::testing {
namespace {

TEST(BuildersTest, TwoRecurrentLayersShareATableAndReadTheirOwnCarry) {
  ModelBuilder builder;
  const CellTypeId first = builder.Add(LstmCell(3, 5), 1);
  const CellTypeId second = builder.Add(LstmCell(5, 5, "h"), 2);
  builder.Connect(second, "x", first);
  const CellTypeId head = builder.Add(LinearCell(5, 2, "h"), 3);
  builder.Connect(head, "x", second);
  const std::shared_ptr<Model> model = builder.Build();
  EXPECT_EQ(model->type(first).out, model->type(second).out);
  EXPECT_EQ(model->type(second).in[0], model->type(first).out);
  EXPECT_EQ(model->type(head).in[0], model->type(first).out);
  EXPECT_EQ(model->type(first).in[0], FindTable(*model, "x"));
}

TEST(BuildersTest, RandomCellsAreValidAndDiffer) {
  std::set<int64_t> flops;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const CellDefinition cell = RandomCell(seed);  // ends the process if it is not valid
    EXPECT_TRUE(cell.carry().has_value());
    flops.insert(cell.flops());
  }
  EXPECT_GT(flops.size(), 150u);
}

TEST(BuildersTest, WeightsDependOnTheSeedOnly) {
  const CellDefinition cell = GruCell(4, 6);
  const Weights a = RandomWeights(cell, 7), b = RandomWeights(cell, 7), c = RandomWeights(cell, 8);
  EXPECT_EQ(a[0].data[5], b[0].data[5]);
  EXPECT_NE(a[0].data[5], c[0].data[5]);
  EXPECT_NE(a[0].data[5], a[1].data[5]);
}

}  // namespace
}  // namespace cellbatch::testing
