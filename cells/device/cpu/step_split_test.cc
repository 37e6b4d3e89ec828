#include "cells/device/cpu/step_split.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

constexpr int kMostThreads = 128;
constexpr SplitCosts kCosts;

struct Step {
  int64_t cost;
  int panels;
  int32_t rows;
  int threads;
};

// LSTM-like: of a panel and row some 2 to 200 thousand multiply-adds.
Step RandomStep(std::mt19937& random) {
  const auto upto = [&](int most) { return 1 + static_cast<int>(random() % most); };
  Step step = {0, upto(random() % 2 == 0 ? 20 : 600), upto(512), upto(kMostThreads)};
  step.cost = int64_t{step.panels} * step.rows * (2000 * upto(100));
  return step;
}

std::string Text(const Step& step) {
  return std::to_string(step.panels) + " panels, " + std::to_string(step.rows) + " rows, " +
         std::to_string(step.threads) + " threads, cost " + std::to_string(step.cost);
}

TEST(StepSplitTest, EveryRowOfEveryPanelIsInOneBlock) {
  constexpr uint32_t kSeed = 5;
  std::mt19937 random(kSeed);
  for (int i = 0; i < 400; ++i) {
    const Step step = RandomStep(random);
    SCOPED_TRACE(Text(step));
    const StepSplit split = SplitProduct(step.cost, step.panels, step.rows, step.threads, kCosts);
    std::vector<int> met(static_cast<size_t>(step.panels * step.rows));
    for (int block = 0; block < split.blocks(); ++block) {
      const Part panels = split.PanelsOf(block, step.panels), rows = split.RowsOf(block, step.rows);
      ASSERT_GT(panels.size(), 0);
      ASSERT_GT(rows.size(), 0);
      for (int p = panels.begin; p < panels.end; ++p) {
        for (int r = rows.begin; r < rows.end; ++r) ++met[static_cast<size_t>(p * step.rows + r)];
      }
    }
    for (const int times : met) ASSERT_EQ(times, 1);
  }
}

TEST(StepSplitTest, RowsAreSplitOnlyWherePanelsAreTooFewAndNeverIntoCrumbs) {
  constexpr uint32_t kSeed = 6;
  std::mt19937 random(kSeed);
  int by_rows = 0;
  for (int i = 0; i < 20000; ++i) {
    const Step step = RandomStep(random);
    SCOPED_TRACE(Text(step));
    const StepSplit split = SplitProduct(step.cost, step.panels, step.rows, step.threads, kCosts);
    EXPECT_LE(split.blocks(), 16 * step.threads);
    if (split.rows == 1) continue;
    ++by_rows;
    EXPECT_LT(step.panels, 2 * step.threads);
    EXPECT_EQ(split.panels, step.panels) << "every panel alone before any is split by rows";
    EXPECT_GE(step.rows / split.rows, kLeastRowsOfAPart);
  }
  EXPECT_GT(by_rows, 2000);
}

// From 1 to 128 cores: an LSTM of 256 units (16 panels of 512 steps of k by 64 columns).
TEST(StepSplitTest, CoresHaveTwoBlocksEachAsLongAsThereAreRows) {
  constexpr int kPanels = 16;
  for (int threads = 2; threads <= kMostThreads; ++threads) {
    for (const int32_t rows : {16, 32, 64, 128, 512}) {
      const int64_t cost = int64_t{kPanels} * 512 * 64 * rows;
      const StepSplit split = SplitProduct(cost, kPanels, rows, threads, kCosts);
      const int most = kPanels * (rows / kLeastRowsOfAPart);
      EXPECT_GE(split.blocks(), std::min(2 * threads, most)) << threads << " threads, " << rows;
    }
  }
}

TEST(StepSplitTest, OneThreadAndStepsThatAreSoonDoneHaveOneBlock) {
  EXPECT_EQ(SplitProduct(1'000'000'000, 64, 512, 1, kCosts).blocks(), 1);
  EXPECT_EQ(SplitProduct(149'999, 64, 512, 8, kCosts).blocks(), 1);
  EXPECT_EQ(SplitByRows(149'999, 512, 8, kCosts).blocks(), 1);
  EXPECT_EQ(SplitByRows(1'000'000'000, 512, 1, kCosts).blocks(), 1);
  EXPECT_EQ(SplitByRows(1'000'000'000, 3, 8, kCosts).rows, 3);
}

TEST(StepSplitTest, WhatIsSlowToForkOrFastToComputeIsSplitLater) {
  constexpr int64_t kCost = 1'000'000;  // 20 us of the usual core
  EXPECT_EQ(SplitProduct(kCost, 64, 512, 2, kCosts).blocks(), 4);
  SplitCosts slow_to_fork = kCosts, fast = kCosts, slow = kCosts;
  slow_to_fork.fork_ns = 10e3;
  EXPECT_EQ(SplitProduct(kCost, 64, 512, 2, slow_to_fork).blocks(), 1);
  fast.per_ns = 1000;
  EXPECT_EQ(SplitProduct(kCost, 64, 512, 2, fast).blocks(), 1);
  slow.per_ns = 5;
  EXPECT_EQ(SplitProduct(kCost, 64, 512, 2, slow).blocks(), 32) << "blocks as long as elsewhere";
}

TEST(StepSplitTest, OnlyAStepOfTwiceTheTimeIsWorthWakingFor) {
  SplitCosts costs = kCosts;
  EXPECT_FALSE(IsWorthWaking(2'999'999, costs));
  EXPECT_TRUE(IsWorthWaking(3'000'000, costs));
  costs.wake_ns *= 2;
  EXPECT_FALSE(IsWorthWaking(3'000'000, costs));
  costs.per_ns /= 2;
  EXPECT_TRUE(IsWorthWaking(3'000'000, costs));
}

}  // namespace
}  // namespace cellbatch
