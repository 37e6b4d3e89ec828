#include "cells/kernels/cpu/vector_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <vector>

#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/random_product.h"

namespace cellbatch::kernels {
namespace {

class VectorMathTest : public testing::TestWithParam<const CpuKernels*> {
 protected:
  // f of every x, through an element-wise program of the table under test.
  std::vector<float> Apply(TailOpKind f, std::vector<float> x) const {
    ProductSpec spec;
    spec.units = static_cast<int32_t>(x.size());
    spec.groups = 0;
    spec.tail = {{{TailOpKind::kColumn}, {f, 0}, {TailOpKind::kStore, 1}}, 1, 0};
    const PackedProduct program(spec);
    const RowColumn column{x.data()};
    ProductScratch scratch;
    GetParam()->run_product(program, {1, nullptr, nullptr, &column}, 0, program.num_panels(),
                            &scratch);
    return x;
  }

  // The largest error over a sweep, in units of the last place of the true value.
  double WorstUlps(TailOpKind f, const std::function<double(double)>& truth, float from,
                   float to) const {
    std::vector<float> x;
    for (int i = 0; i <= 400000; ++i) {
      x.push_back(from + static_cast<float>((double{to} - from) * i / 400000));
    }
    for (float tiny = 1e-30f; tiny < 1.0f; tiny *= 1.37f) {
      if (tiny > from) x.push_back(tiny);
      if (-tiny > from) x.push_back(-tiny);
    }
    const std::vector<float> y = Apply(f, x);
    double worst = 0.0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = truth(double{x[i]});
      const float near = std::abs(static_cast<float>(exact));
      const double ulp = double{std::nextafter(near, HUGE_VALF)} - near;
      worst = std::max(worst, std::abs(double{y[i]} - exact) / ulp);
    }
    return worst;
  }
};

INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, VectorMathTest,
                         testing::ValuesIn(RunnableKernels(DetectCpuFeatures())),
                         [](const auto& info) { return std::string(info.param->name); });

TEST_P(VectorMathTest, FunctionsAreWithinAFewUnitsInTheLastPlace) {
  const double e = WorstUlps(
      TailOpKind::kExp, [](double x) { return std::exp(x); }, -87.0f, 88.5f);
  const double s = WorstUlps(
      TailOpKind::kSigmoid, [](double x) { return 1.0 / (1.0 + std::exp(-x)); }, -80.0f, 80.0f);
  const double t = WorstUlps(
      TailOpKind::kTanh, [](double x) { return std::tanh(x); }, -12.0f, 12.0f);
  const double l = WorstUlps(
      TailOpKind::kLog, [](double x) { return std::log(x); }, 1e-6f, 50.0f);
  EXPECT_LE(e, 2.5);
  EXPECT_LE(s, 3.0);
  EXPECT_LE(t, 2.5);
  EXPECT_LE(l, 2.0);
  std::printf("worst ulps: exp %.2f, sigmoid %.2f, tanh %.2f, log %.2f\n", e, s, t, l);
}

TEST_P(VectorMathTest, EdgesAreWhatArithmeticSays) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {0.0f, 89.0f, -150.0f, inf, -inf, 1e30f, -1e30f, nan};
  const auto expect = [&](TailOpKind f, const std::vector<float>& expected) {
    const std::vector<float> y = Apply(f, x);
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(expected[i])) {
        EXPECT_TRUE(std::isnan(y[i])) << "of " << x[i];
      } else {
        EXPECT_EQ(y[i], expected[i]) << "of " << x[i];
      }
    }
  };
  expect(TailOpKind::kExp, {1, inf, 0, inf, 0, inf, 0, nan});
  expect(TailOpKind::kSigmoid, {0.5f, 1, 0, 1, 0, 1, 0, nan});
  expect(TailOpKind::kTanh, {0, 1, -1, 1, -1, 1, -1, nan});
  expect(TailOpKind::kRelu, {0, 89, 0, inf, 0, 1e30f, 0, nan});
  expect(TailOpKind::kLog, {-inf, std::log(89.0f), nan, inf, nan, std::log(1e30f), nan, nan});
}

}  // namespace
}  // namespace cellbatch::kernels
