#include "cells/kernels/blas/openblas.h"

#include <gtest/gtest.h>

#include <vector>

#include "cells/kernels/cpu/random_product.h"

namespace cellbatch::kernels {
namespace {

// Both ways of writing w, strided, one row and several, against sums in double.
TEST(OpenBlasTest, ProductsMeanWhatOursMean) {
  const absl::StatusOr<OpenBlas> blas = OpenBlas::Load();
  ASSERT_TRUE(blas.ok()) << blas.status();
  Random random(3);
  for (int trial = 0; trial < 60; ++trial) {
    const int rows = trial % 4 == 0 ? 1 : RandomInt(random, 2, 40);
    const int depth = RandomInt(random, 1, 150), cols = RandomInt(random, 1, 150);
    const int x_stride = depth + RandomInt(random, 0, 5);
    const int w_stride = depth + RandomInt(random, 0, 5), t_stride = cols + RandomInt(random, 0, 5);
    const std::vector<float> x = RandomFloats(random, rows * x_stride);
    const std::vector<float> w = RandomFloats(random, cols * w_stride);
    std::vector<float> turned(static_cast<size_t>(depth) * t_stride);
    std::vector<double> expected(static_cast<size_t>(rows) * cols);
    for (int n = 0; n < cols; ++n) {
      for (int k = 0; k < depth; ++k) {
        turned[k * t_stride + n] = w[n * w_stride + k];
        for (int m = 0; m < rows; ++m) {
          expected[m * cols + n] += static_cast<double>(x[m * x_stride + k]) * w[n * w_stride + k];
        }
      }
    }
    std::vector<float> y(expected.size() + 1, 77.0f), z = y;
    blas->ByRows({x.data(), x_stride, w.data(), w_stride, rows, depth, cols, y.data()});
    blas->ByColumns({x.data(), x_stride, turned.data(), t_stride, rows, depth, cols, z.data()});
    EXPECT_LE(Excess(expected, y.data()), 1.0);
    EXPECT_LE(Excess(expected, z.data()), 1.0);
    EXPECT_EQ(y.back(), 77.0f);
    EXPECT_EQ(z.back(), 77.0f);
  }
}

}  // namespace
}  // namespace cellbatch::kernels
