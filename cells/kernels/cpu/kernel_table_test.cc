#include "cells/kernels/cpu/kernel_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "cells/device/cpu/tile_permission.h"
#include "cells/kernels/cpu/bf16_trial.h"
#include "cells/kernels/cpu/random_product.h"

namespace cellbatch::kernels {
namespace {

class RowKernelTest : public testing::TestWithParam<const CpuKernels*> {
 protected:
  const CpuKernels& kernels() const { return *GetParam(); }
  Random random_{5};
};

INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, RowKernelTest,
                         testing::ValuesIn(RunnableKernels(DetectCpuFeatures())),
                         [](const auto& info) { return std::string(info.param->name); });

TEST(KernelTableTest, TheChoiceFollowsTheFeaturesAndNeverExceedsThem) {
  CpuFeatures cpu;
  EXPECT_STREQ(BestKernels(cpu).name, "portable");
  cpu.avx2_fma = true;
  EXPECT_STREQ(BestKernels(cpu).name, "avx2");
  cpu.avx512 = true;
  EXPECT_STREQ(BestKernels(cpu).name, "avx512");
  EXPECT_EQ(RunnableKernels(cpu).size(), 3u);
  cpu.avx512_bf16 = true;
  const std::vector<const CpuKernels*> tables = RunnableKernels(cpu);
  ASSERT_EQ(tables.size(), 4u);
  // Which of the two is faster the CPU was asked.
  const bool pairs_first = tables[0]->bf16_in_pairs;
  const CpuKernels &pairs = *tables[pairs_first ? 0 : 1], &without = *tables[pairs_first ? 1 : 0];
  EXPECT_STREQ(pairs.name, "avx512_bf16");
  EXPECT_STREQ(without.name, "avx512");
  EXPECT_NE(pairs.run_product, without.run_product);
  EXPECT_EQ(pairs.element_wise, without.element_wise);
  EXPECT_EQ(&BestKernels(cpu), tables[0]);
}

TEST(Bf16TrialTest, WhatDoesEverythingEightTimesIsSlower) {
  static const CpuKernels& portable = BestKernels(CpuFeatures());
  CpuKernels slow = portable;
  slow.run_product = [](const PackedProduct& product, const ProductArgs& args, int first, int last,
                        ProductScratch* scratch) {
    for (int i = 0; i < 8; ++i) portable.run_product(product, args, first, last, scratch);
  };
  EXPECT_TRUE(IsFasterInBf16(portable, slow));
  EXPECT_FALSE(IsFasterInBf16(slow, portable));
}

// There and nowhere else. (Where they are and did not pass their trial, answers would be slower and nobody would be told why.)
TEST(KernelTableTest, TileRegistersAreUsedWhereTheCpuHasThemAndTheSystemAllowsThem) {
  const CpuFeatures cpu = DetectCpuFeatures();
  const bool tiles = cpu.amx_bf16 && MayUseTiles();
  const CpuKernels& best = BestKernels(cpu);
  EXPECT_EQ(best.bf16_in_tiles, tiles) << best.name;
  EXPECT_EQ(best.split_to_bf16 != nullptr, tiles) << best.name;
  EXPECT_EQ(std::string(best.name) == "avx512_amx", tiles) << best.name;
}

TEST_P(RowKernelTest, SumsAddRowsInLinkOrderAndNothingIsZero) {
  for (int width : {1, 16, 37, 300}) {
    const std::vector<int32_t> offsets = {0, 0, 1, 4, 4, 9};
    RandomRows in(random_, width, 12, 9), out(random_, width, 9, 5);
    kernels().sum_rows(in.source(), offsets.data(), width, 5, out.column());
    EXPECT_TRUE(out.OthersUntouched());
    for (int r = 0; r < 5; ++r) {
      for (int u = 0; u < width; ++u) {
        float sum = 0.0f;
        for (int i = offsets[r]; i < offsets[r + 1]; ++i) {
          sum = i == offsets[r] ? in.Row(i)[u] : sum + in.Row(i)[u];
        }
        EXPECT_EQ(out.Row(r)[u], sum);
      }
    }
  }
}

TEST_P(RowKernelTest, ArgMaxIsTheFirstOfTheLargest) {
  for (int width : {1, 2, 15, 16, 17, 64, 131}) {
    for (int trial = 0; trial < 20; ++trial) {
      RandomRows in(random_, width, 7, 7);
      for (float& x : in.data) x = static_cast<float>(RandomInt(random_, 0, 5));  // many ties
      std::vector<int32_t> got(7, -1);
      kernels().arg_max(in.source(), width, 7, {got.data(), 1});
      for (int r = 0; r < 7; ++r) {
        EXPECT_EQ(got[r], std::max_element(in.Row(r), in.Row(r) + width) - in.Row(r));
      }
    }
  }
}

TEST_P(RowKernelTest, ArgMaxIgnoresNanAndNeverLeavesTheRow) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (int width : {3, 16, 20, 35}) {
    std::vector<float> row(width, nan);
    int32_t got = -1;
    const RowSource in{row.data(), 0};
    kernels().arg_max(in, width, 1, {&got});
    EXPECT_EQ(got, 0);
    row[width - 1] = -inf;
    kernels().arg_max(in, width, 1, {&got});
    EXPECT_EQ(got, width - 1);
    row[1] = -3.0f;
    kernels().arg_max(in, width, 1, {&got});
    EXPECT_EQ(got, 1);
  }
}

// Both ways of writing w, strided, against sums in double; and each row alone, bit by bit.
TEST_P(RowKernelTest, ProductsOfValuesAgreeWithTheirSums) {
  for (int trial = 0; trial < 60; ++trial) {
    const int rows = RandomInt(random_, 1, 15), depth = RandomInt(random_, 1, 150),
              cols = RandomInt(random_, 1, 150), x_stride = depth + RandomInt(random_, 0, 5),
              by_rows_stride = depth + RandomInt(random_, 0, 5),
              by_columns_stride = cols + RandomInt(random_, 0, 5);
    const std::vector<float> x = RandomFloats(random_, rows * x_stride);
    const std::vector<float> w = RandomFloats(random_, cols * by_rows_stride);
    std::vector<float> turned(static_cast<size_t>(depth * by_columns_stride));
    for (int n = 0; n < cols; ++n) {
      for (int k = 0; k < depth; ++k) turned[k * by_columns_stride + n] = w[n * by_rows_stride + k];
    }
    std::vector<double> expected;
    for (int m = 0; m < rows; ++m) {
      for (int n = 0; n < cols; ++n) {
        double sum = 0;
        for (int k = 0; k < depth; ++k) {
          sum += static_cast<double>(x[m * x_stride + k]) * w[n * by_rows_stride + k];
        }
        expected.push_back(sum);
      }
    }
    const float guard = 77.0f;
    std::vector<float> y(expected.size() + 1, guard), z = y, alone(static_cast<size_t>(cols) + 1);
    kernels().mat_mul_by_rows(
        {x.data(), x_stride, w.data(), by_rows_stride, rows, depth, cols, y.data()});
    const MatMulArgs by_columns = {x.data(), x_stride, turned.data(), by_columns_stride,
                                   rows,     depth,    cols,          z.data()};
    kernels().mat_mul_by_columns(by_columns);
    EXPECT_LE(Excess(expected, y.data()), 1.0);
    EXPECT_LE(Excess(expected, z.data()), 1.0);
    EXPECT_EQ(y.back(), guard);
    EXPECT_EQ(z.back(), guard);
    for (int m = 0; m < rows; ++m) {
      MatMulArgs one = by_columns;
      one.x += m * x_stride, one.rows = 1, one.y = alone.data();
      kernels().mat_mul_by_columns(one);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end() - 1, z.begin() + m * cols));
    }
  }
}

TEST_P(RowKernelTest, CopyingLooksUpTokens) {
  RandomRows vocabulary(random_, 21, 50, 50), out(random_, 21, 9, 6);
  std::vector<int32_t> token = {3, 3, 49, 0, 7, 11, 12, 13}, nodes = {5, 0, 2, 1, 7, 3};
  const RowSource in{vocabulary.data.data(), vocabulary.stride, nodes.data(), token.data()};
  kernels().copy_rows(in, 21, 6, out.column());
  EXPECT_TRUE(out.OthersUntouched());
  for (int r = 0; r < 6; ++r) {
    EXPECT_TRUE(std::equal(out.Row(r), out.Row(r) + 21,
                           vocabulary.data.data() + vocabulary.stride * token[nodes[r]]));
  }
}

TEST(RowsTest, PaddedStridesAreWholeLinesAndNeverAMultipleOfFourKiB) {
  for (int64_t width = 1; width < 5000; ++width) {
    const int64_t stride = PaddedStride(width);
    EXPECT_GE(stride, width);
    EXPECT_LE(stride, width + 31);
    EXPECT_EQ(stride % 16, 0);
    EXPECT_NE(stride % 1024, 0);
  }
}

}  // namespace
}  // namespace cellbatch::kernels
