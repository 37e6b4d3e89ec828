#include "cells/explain/explain_cell.h"

#include <gtest/gtest.h>

#include <string>

#include "cells/definitions/shipped.h"
#include "cells/device/cpu/cpu_limits.h"
#include "tests/testing/builders.h"
#include "tests/testing/shipped_cell.h"

namespace cellbatch {
namespace {

CellExplanation Explained(const CellDefinition& cell) {
  absl::StatusOr<CellExplanation> explained = ExplainCell(cell, kCpuLimits);
  EXPECT_TRUE(explained.ok()) << explained.status();
  return explained.ok() ? *std::move(explained) : CellExplanation();
}

CellExplanation Shipped(std::string_view cell, int units = 64) {
  return Explained(testing::ShippedDefinition(cell, {{"D", units}, {"H", units}, {"V", 100}}));
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ExplainCellTest, ThePlanIsDrawnWithTheNamesOfTheDefinition) {
  const CellExplanation lstm = Shipped("lstm");
  EXPECT_TRUE(Has(lstm.plan, "|W[0:64] W[64:128] W[128:192] W[192:256]|U[0:64] ")) << lstm.plan;
  EXPECT_TRUE(Has(lstm.plan, "|x |before.h\n")) << lstm.plan;
  EXPECT_TRUE(Has(lstm.plan, "group0.0")) << lstm.plan;
  EXPECT_TRUE(lstm.least);
  // Columns of a matrix that is read in two halves, and what one step stores for the next.
  EXPECT_TRUE(Has(Shipped("treelstm_internal").plan, " U[64:128, 0:64] "));
  EXPECT_TRUE(Has(Shipped("gru_v1").plan, "memory            kept0 kept1 group0.0 group0.1|"));
  EXPECT_EQ(Shipped("embed").plan, "");
}

// ED-Batch's Table 2 in its setting (tests/bench/memplan): what is naive there is naive here.
TEST(ExplainCellTest, CopiesAreThoseOfTheOperatorsOneByOne) {
  const CellExplanation leaf = Shipped("treelstm_leaf");
  ASSERT_EQ(leaf.copies.size(), 2u);
  const ComparedCopies& eight = leaf.copies[1];
  EXPECT_EQ(eight.nodes, 8);
  EXPECT_EQ(eight.naive.copies, 8);
  EXPECT_EQ(eight.naive.bytes, 82688);  // 80.8 kB
  EXPECT_EQ(eight.planned.copies, 1);
  EXPECT_EQ(eight.planned.bytes, 6144);
  EXPECT_EQ(eight.planned.launches, eight.naive.launches);
  EXPECT_EQ(eight.fused.launches, 1);
  EXPECT_EQ(eight.fused.copies, 0);
  // Rows are a node's, weights a task's.
  EXPECT_EQ(leaf.copies[0].planned.bytes, 6144 / 8);
  EXPECT_GT(leaf.copies[0].naive.bytes, 82688 / 8);
}

TEST(ExplainCellTest, WhatAProgramItselfCopiesIsCounted) {
  const CellExplanation embed = Shipped("embed", 64);
  ASSERT_EQ(embed.steps.size(), 2u);
  EXPECT_EQ(embed.copies[1].fused.copies, 1);
  EXPECT_EQ(embed.copies[1].fused.bytes, 64 * 4 * 8);
  EXPECT_EQ(embed.copies[1].fused.launches, 1);
}

TEST(ExplainCellTest, EveryShippedCellAndManyRandomOnesAreExplained) {
  const Sizes sizes = {{"D", 64}, {"H", 64}, {"V", 1000}, {"C", 64}, {"F", 64}, {"B", 64},
                       {"L", 64}, {"M", 64}, {"P", 64},   {"S", 64}, {"BOS", 1}};
  for (const ShippedCell& shipped : ShippedCells()) {
    SCOPED_TRACE(shipped.name);
    const CellExplanation cell = Explained(testing::ShippedDefinition(shipped.name, sizes));
    EXPECT_EQ(cell.copies.size(), 2u);
    EXPECT_FALSE(cell.equations.empty());
  }
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const CellExplanation cell = Explained(testing::RandomCell(seed));
    for (const ComparedCopies& c : cell.copies) EXPECT_LE(c.planned.bytes, c.naive.bytes);
  }
}

}  // namespace
}  // namespace cellbatch
