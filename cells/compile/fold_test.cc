#include "cells/compile/fold.h"

#include <gtest/gtest.h>

#include "cells/compile/lower.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

constexpr ProgramLimits kLimits = {
    .groups = 5, .segments = 8, .tail_ops = 64, .tail_columns = 16, .scratch_alignment = 16};

// A device that stores a row of 5 units and 4 groups in 64 floats, any other in more; what a node leaves in 32.
int64_t SumBytes(const ProductStep& step) { return int64_t{step.groups()} * (step.units + 11) * 4; }
int64_t NodeBytes(int) { return 32 * 4; }
constexpr int64_t kSums = 64 * 4, kNode = 32 * 4;

std::vector<CellFolds> Plan(const std::vector<CellProgram>& programs, int64_t budget_bytes) {
  return PlanFolds(programs, budget_bytes, {SumBytes, NodeBytes});
}

int64_t BytesOf(const std::vector<CellFolds>& folds) {
  int64_t bytes = 0;
  for (const CellFolds& f : folds) bytes += f.bytes;
  return bytes;
}

// tanh(W E[token] + b): a leaf.
CellDefinition LeafCell(int32_t v, int32_t e, int32_t h) {
  testing::CellBuilder b("leaf");
  const ValueId token = b.Read("token", "token", 1, ElementType::kInt32);
  const ValueId x = b.Lookup(b.Matrix("E", v, e), token);
  b.Leave("h", b.Tanh(b.Add(b.MatMul(x, b.Matrix("W", h, e)), b.Vector("b", h))));
  return b.Build();
}

TEST(FoldTest, OnlyProductsThatStartFromATableAreFolded) {
  const std::vector<CellProgram> programs = {*Lower(testing::LstmCell(3, 5), kLimits),
                                             *Lower(testing::TokenLstmCell(100, 3, 5), kLimits),
                                             *Lower(testing::EmbeddingCell(100, 3), kLimits)};
  const std::vector<CellFolds> folds = Plan(programs, 1 << 30);
  EXPECT_EQ(folds[1].steps, std::vector<int>{1});
  EXPECT_EQ(folds[1].bytes, 100 * kSums);
  EXPECT_EQ(BytesOf(folds), folds[1].bytes);
}

TEST(FoldTest, MemoryGoesWhereItSavesMostTimePerByte) {
  // Same row size; the second saves ten times the work, the third has ten times the rows.
  const std::vector<CellProgram> programs = {*Lower(testing::TokenLstmCell(100, 3, 5), kLimits),
                                             *Lower(testing::TokenLstmCell(100, 30, 5), kLimits),
                                             *Lower(testing::TokenLstmCell(1000, 30, 5), kLimits)};
  const int64_t small = 100 * kSums;
  const auto folded = [&](int64_t budget) {
    std::vector<int> which;
    const std::vector<CellFolds> folds = Plan(programs, budget);
    for (size_t p = 0; p < folds.size(); ++p) {
      if (!folds[p].steps.empty()) which.push_back(static_cast<int>(p));
    }
    return which;
  };
  EXPECT_EQ(folded(small - 1), std::vector<int>());
  EXPECT_EQ(folded(small), std::vector<int>({1}));
  EXPECT_EQ(folded(2 * small), std::vector<int>({0, 1}));
  EXPECT_EQ(folded(12 * small), std::vector<int>({0, 1, 2}));
}

TEST(FoldTest, ACellThatDependsOnATokenAloneIsFoldedAsAWhole) {
  const std::vector<CellProgram> programs = {*Lower(LeafCell(100, 3, 5), kLimits)};
  const std::vector<CellFolds> folds = Plan(programs, 1 << 30);
  EXPECT_TRUE(folds[0].whole);
  EXPECT_TRUE(folds[0].steps.empty());
  EXPECT_EQ(folds[0].bytes, 100 * kNode);
}

// Sums of two groups are as wide as what it leaves, and save less: the whole goes first, and nothing is left to fold.
TEST(FoldTest, WhereTheWholeCellSavesMoreAByteNoneOfItsSumsIsFolded) {
  testing::CellBuilder b("gated leaf");
  const ValueId token = b.Read("token", "token", 1, ElementType::kInt32);
  const ValueId x = b.Lookup(b.Matrix("E", 100, 3), token);
  const ValueId gate = b.Sigmoid(b.MatMul(x, b.Matrix("W", 5, 3)));
  b.Leave("h", b.Mul(gate, b.Tanh(b.MatMul(x, b.Matrix("V", 5, 3)))));
  const CellFolds folds = Plan({*Lower(b.Build(), kLimits)}, 1 << 30)[0];
  EXPECT_TRUE(folds.whole);
  EXPECT_TRUE(folds.steps.empty());
  EXPECT_EQ(folds.bytes, 100 * kNode);
  EXPECT_EQ(folds.taken.size(), 1u);
}

TEST(FoldTest, WhatAWholeCellsSumsTookIsThereForOthers) {
  const std::vector<CellProgram> programs = {*Lower(LeafCell(100, 300, 5), kLimits),
                                             *Lower(testing::TokenLstmCell(1000, 3, 5), kLimits)};
  const int64_t both = 100 * kNode + 1000 * kSums;
  for (const int64_t budget : {both - 1, both}) {
    const std::vector<CellFolds> folds = Plan(programs, budget);
    EXPECT_TRUE(folds[0].whole);
    EXPECT_EQ(folds[1].steps.size(), budget == both ? 1u : 0u) << budget;
  }
}

TEST(FoldTest, AWholeCellTakesThePlaceOfItsSumsOnlyWhereThereIsRoom) {
  // Its sums are 16 units wide, less than what it leaves: they are worth more a byte.
  const std::vector<CellProgram> programs = {*Lower(LeafCell(100, 300, 5), kLimits)};
  const int64_t sums = 100 * 16 * 4, node = 100 * kNode;
  for (const auto& [budget, whole, bytes] :
       {std::tuple(sums - 1, false, int64_t{0}), std::tuple(sums, false, sums),
        std::tuple(node - 1, false, sums), std::tuple(node, true, node)}) {
    const std::vector<CellFolds> folds = Plan(programs, budget);
    EXPECT_EQ(folds[0].whole, whole) << budget;
    EXPECT_EQ(folds[0].bytes, bytes) << budget;
    EXPECT_EQ(folds[0].steps.size(), !whole && bytes > 0 ? 1u : 0u);
  }
}

// What is said of a table: what a task of kFoldBatch nodes saves by it, a byte, and whether there was room.
TEST(FoldTest, SaysWhatWasTakenAndWhatHadNoRoom) {
  const std::vector<CellProgram> programs = {*Lower(LeafCell(100, 300, 5), kLimits)};
  const int64_t sums = 100 * 16 * 4, node = 100 * kNode;
  const double of_sums = kFoldBatch * 300.0 * 5 / static_cast<double>(sums);
  // The product and three operations of its tail on each unit: load, tanh, store.
  const double of_whole = kFoldBatch * (300.0 + 3) * 5 / static_cast<double>(node);
  const auto said = [&](int64_t budget) {
    const CellFolds folds = Plan(programs, budget)[0];
    std::vector<std::pair<double, double>> rates;  // of what was taken, of what was refused
    for (const FoldOffer& offer : folds.taken) rates.emplace_back(offer.rate, 0);
    for (const FoldOffer& offer : folds.refused) rates.emplace_back(0, offer.rate);
    return rates;
  };
  using Rates = std::vector<std::pair<double, double>>;
  EXPECT_EQ(said(sums - 1), (Rates{{0, of_sums}, {0, of_whole}}));
  EXPECT_EQ(said(node - 1), (Rates{{of_sums, 0}, {0, of_whole}}));
  EXPECT_EQ(said(node), (Rates{{of_whole, 0}}));
  const CellFolds lstm = Plan({*Lower(testing::TokenLstmCell(100, 3, 5), kLimits)}, 1 << 30)[0];
  ASSERT_EQ(lstm.taken.size(), 1u);  // four gates
  EXPECT_EQ(lstm.taken[0].rate, kFoldBatch * 4 * 3.0 * 5 / (100 * kSums));
  EXPECT_TRUE(lstm.refused.empty());
}

// y = softmax(x P sum(x)) of a token's x, P [4, 6]: by the elements that each step touches.
TEST(FoldTest, StepsOfTheirOwnAreWorkToo) {
  testing::CellBuilder b("plain");
  const ValueId token = b.Read("token", "token", 1, ElementType::kInt32);
  const ValueId x = b.Lookup(b.Matrix("E", 100, 6), token);
  const ValueId matrix = b.Mul(b.Matrix("P", 4, 6), b.Op1(OpKind::kSum, x));
  b.Leave("y", b.Op1(OpKind::kSoftmax, b.MatMul(x, matrix)));
  ProgramLimits limits = kLimits;
  limits.scalars = true;
  const CellProgram program = *Lower(b.Build(), limits);
  ASSERT_EQ(Describe(program),
            "index table0\n"
            "sum table0 [1] -> scratch\n"
            "product 0x24 tail 4 -> scratch+16\n"
            "matmul table0 scratch+16 [4] -> scratch\n"
            "softmax scratch [4] -> out0\n");
  const CellFolds folds = Plan({program}, 1 << 30)[0];
  ASSERT_EQ(folds.taken.size(), 1u);
  const int work = (1 + 6) + 4 * 24 + 4 * 6 + (4 + 4);
  EXPECT_EQ(folds.taken[0].rate, kFoldBatch * static_cast<double>(work) / (100 * kNode));
}

TEST(FoldTest, OfTwoTablesTheLongerHasTheRows) {
  for (const bool longer_first : {false, true}) {
    testing::CellBuilder b("tables");
    const ValueId token = b.Read("token", "token", 1, ElementType::kInt32);
    const ValueId x = b.Lookup(b.Matrix("E", longer_first ? 90 : 20, 4), token);
    b.Leave("x", b.Tanh(b.Add(x, b.Lookup(b.Matrix("F", longer_first ? 20 : 90, 4), token))));
    const CellProgram program = *Lower(b.Build(), kLimits);
    const std::optional<int32_t> whole = LookupOfWhole(program);
    ASSERT_TRUE(whole.has_value());
    EXPECT_EQ(program.lookups[static_cast<size_t>(*whole)].rows, 90);
  }
}

TEST(FoldTest, WhatReadsMoreThanOneTokenIsNoWhole) {
  testing::CellBuilder more(
      "more");  // its token is left, too: one beyond the table is not the last word's
  const ValueId token = more.Read("token", "token", 1, ElementType::kInt32);
  more.Leave("x", more.Tanh(more.Lookup(more.Matrix("E", 9, 4), token)));
  more.Leave("token", token);
  testing::CellBuilder two("two");
  const ValueId a = two.Read("a", "a", 1, ElementType::kInt32);
  const ValueId b = two.Read("b", "b", 1, ElementType::kInt32);
  const ValueId table = two.Matrix("E", 9, 4);
  two.Leave("x", two.Add(two.Tanh(two.Lookup(table, a)), two.Lookup(table, b)));
  testing::CellBuilder sum("sum");
  const ValueId all = sum.Read("all", "h", 4, ElementType::kFp32, Arity::kSum);
  const ValueId word = sum.Read("token", "token", 1, ElementType::kInt32);
  sum.Leave("x", sum.Tanh(sum.Add(sum.Lookup(sum.Matrix("E", 9, 4), word), all)));
  for (const CellDefinition& cell : {more.Build(), two.Build(), sum.Build(),
                                     testing::TokenLstmCell(9, 3, 5), testing::LstmCell(3, 5)}) {
    EXPECT_FALSE(LookupOfWhole(*Lower(cell, kLimits)).has_value()) << cell.name();
  }
  // Nothing is saved by a copy of a copy.
  const std::vector<CellFolds> folds =
      Plan({*Lower(testing::EmbeddingCell(9, 4), kLimits)}, 1 << 30);
  EXPECT_EQ(folds[0].bytes, 0);
}

}  // namespace
}  // namespace cellbatch
