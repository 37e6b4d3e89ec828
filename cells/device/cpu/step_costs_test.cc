#include "cells/device/cpu/step_costs.h"

#include <gtest/gtest.h>

#include <variant>

#include "cells/compile/lower.h"
#include "cells/device/cpu/cpu_limits.h"
#include "cells/device/cpu/step_split.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

// Two cores that are like those of SplitCosts as it stands.
bool IsSplit(int64_t cost_a_row, int32_t rows) {
  return SplitByRows(cost_a_row * rows, rows, 2, SplitCosts()).blocks() > 1;
}

TEST(StepCostsTest, ATailCostsWhatItsOperationsDo) {
  TailProgram tail;
  tail.ops = {{.kind = TailOpKind::kAccumulator},
              {.kind = TailOpKind::kConstant, .constant = 2.0f}};
  EXPECT_EQ(TailCost(tail), 1);
  tail.ops.push_back({.kind = TailOpKind::kMul, .a = 0, .b = 1});
  EXPECT_EQ(TailCost(tail), 2);
  tail.ops.push_back({.kind = TailOpKind::kStore, .a = 2});
  EXPECT_EQ(TailCost(tail), 2 + kCopyCost);
  const int64_t stored = TailCost(tail);
  tail.ops.insert(tail.ops.begin() + 2, {.kind = TailOpKind::kTanh, .a = 0});
  EXPECT_GT(TailCost(tail), stored + 10);
}

// The gates of an LSTM are 1.5 ns a unit where a core has 100 multiply-adds a ns.
TEST(StepCostsTest, AnLstmsTailCostsWhatWasMeasured) {
  const absl::StatusOr<CellProgram> program = Lower(testing::LstmCell(64, 64), kCpuLimits);
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_EQ(program->steps.size(), 1u);
  const int64_t cost = TailCost(std::get<ProductStep>(program->steps[0]).tail);
  EXPECT_GT(cost, 100);
  EXPECT_LT(cost, 250);
}

// Rows of 256 numbers, rounded or put through an LSTM's gates: left to one core, they take as long as products of theirs.
TEST(StepCostsTest, WhatTakesMicrosecondsIsSplit) {
  EXPECT_TRUE(IsSplit(256 * RoundingCost(Precision::kBf16), 64));
  EXPECT_TRUE(IsSplit(256 * RoundingCost(Precision::kFp32Split), 32));
  EXPECT_FALSE(IsSplit(256 * RoundingCost(Precision::kBf16), 8));
  EXPECT_TRUE(IsSplit(int64_t{256} * 150, 8));
}

TEST(StepCostsTest, EveryPlainStepCostsSomethingAndMoreOfItMore) {
  for (const PlainKind kind :
       {PlainKind::kCopy, PlainKind::kBroadcast, PlainKind::kMatMulByRows,
        PlainKind::kMatMulByColumns, PlainKind::kTranspose, PlainKind::kSlice, PlainKind::kSum,
        PlainKind::kMean, PlainKind::kSumSquares, PlainKind::kMeanSquares, PlainKind::kSoftmax,
        PlainKind::kArgMax}) {
    const auto cost = [kind](int32_t n) {
      return PlainStepCost(
          {.kind = kind, .args = {}, .shapes = {{n, n}}, .shape = {n, n}, .to = {}});
    };
    EXPECT_GT(cost(8), 0);
    EXPECT_GE(cost(16), 4 * cost(8));
  }
}

}  // namespace
}  // namespace cellbatch
