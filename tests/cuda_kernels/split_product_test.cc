// Fp32 on tensor cores, as three products of tf32 (mma_product.cuh): within the bound of design.md where it is hardest, what
// becomes of numbers at the ends of the range, and that the bound would notice if a part were missing.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cells/device/cpu/cpu_features.h"
#include "cells/kernels/cpu/kernel_table.h"
#include "tests/cuda_kernels/emulated_cell.h"
#include "tests/testing/builders.h"
#include "tests/testing/cell_trial.h"

namespace cellbatch {
namespace {

using testing::CellTrial;
using testing::TrialOptions;

constexpr int32_t kNodes = 9, kUnits = 20;  // more than an instruction of either
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

constexpr CudaTarget kTensorCores = {.fp32 = Fp32By::kTensorCores};

// y = W x + b.
class Linear {
 public:
  explicit Linear(int32_t depth, EmulatedOptions options = {.target = kTensorCores})
      : emulated_(std::move(options)),
        trial_(testing::LinearCell(depth, kUnits), 5, kernels::BestKernels(DetectCpuFeatures()),
               Options()),
        depth_(depth) {
    std::fill_n(Parameter("b"), kUnits, 0.0f);
  }

  float* x(int32_t node) { return trial_.columns().inputs[0][0].At(node * 7 % kNodes); }
  // Written before the first run.
  float& w(int32_t unit, int32_t k) { return Parameter("W")[int64_t{unit} * depth_ + k]; }
  // Of all weights and all rows, in turn.
  void Fill(const std::function<float()>& weight, const std::function<float()>& value) {
    for (int32_t u = 0; u < kUnits; ++u) {
      for (int32_t k = 0; k < depth_; ++k) w(u, k) = weight();
    }
    for (int32_t n = 0; n < kNodes; ++n) {
      for (int32_t k = 0; k < depth_; ++k) x(n)[k] = value();
    }
  }

  std::vector<float> Left(int32_t node) { return trial_.Left(node)[0]; }
  void Run() { trial_.Run(kNodes); }
  // Of all nodes; empty: they agree.
  std::string RunAndCompare() {
    Run();
    std::string all;
    for (int32_t n = 0; n < kNodes; ++n) all += trial_.Disagreement(n);
    return all;
  }
  std::vector<std::string> Findings() const { return emulated_.Findings(); }

 private:
  float* Parameter(const std::string& name) {
    const auto parameters = trial_.type().definition->parameters();
    size_t p = 0;
    while (parameters[p].name != name) ++p;
    return const_cast<float*>(trial_.type().weights[p].data.get());
  }
  TrialOptions Options() {
    TrialOptions options;
    options.rows = kNodes;
    options.limits = kCudaLimits;
    options.run = emulated_.Runner();
    return options;
  }

  EmulatedCell emulated_;
  CellTrial trial_;
  const int32_t depth_;
};

// All of one sign: each cut takes the same way.
void FillWithOneSign(Linear& linear) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> from_1_to_2(1.0f, 2.0f);
  const auto value = [&] { return from_1_to_2(random); };
  linear.Fill(value, value);
}
constexpr int32_t kDeep = 4100;

std::function<std::string(std::string)> Plant(const std::string& from, const std::string& to) {
  return [from, to](std::string text) {
    const size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return at == text.npos ? text : text.replace(at, from.size(), to);
  };
}

TEST(SplitProductTest, DeepProductsAgreeWithTheInterpreterAtTheirHardest) {
  // Every bit is set: parts lose the most that they can, and there is little else to lose.
  Linear hardest(64);
  hardest.Fill([] { return 2.0f - 0x1p-23f; }, [] { return 2.0f - 0x1p-23f; });
  EXPECT_EQ(hardest.RunAndCompare(), "");

  Linear positive(kDeep);
  FillWithOneSign(positive);
  EXPECT_EQ(positive.RunAndCompare(), "");

  Linear wide(kDeep);
  std::mt19937 random(3);
  std::uniform_real_distribution<float> from_1_to_2(1.0f, 2.0f);
  std::uniform_int_distribution<int> exponent(-40, 20);
  const auto of_any_size = [&] {
    return std::ldexp(from_1_to_2(random), exponent(random)) * (random() % 2 == 0 ? 1.0f : -1.0f);
  };
  wide.Fill(of_any_size, of_any_size);
  EXPECT_EQ(wide.RunAndCompare(), "");
  for (const Linear* const linear : {&hardest, &positive, &wide}) {
    EXPECT_EQ(linear->Findings(), std::vector<std::string>());
  }
}

TEST(SplitProductTest, APartThatIsMissingIsNoticed) {
  const char* const parts[] = {"MmaTf32(weights_rest, ", "MmaTf32(rows_rest, ", "MmaTf32(big, "};
  for (const std::string part : parts) {
    Linear linear(100, {.target = kTensorCores, .rewrite = Plant(part, "if (false) " + part)});
    std::mt19937 random(3);
    std::uniform_real_distribution<float> any(-1.0f, 1.0f);
    const auto value = [&] { return any(random); };
    linear.Fill(value, value);
    EXPECT_NE(linear.RunAndCompare(), "") << part;
  }
}

// What sums of pieces are for: tensor cores cut.
TEST(SplitProductTest, SumsThatTensorCoresKeepThroughoutAreNoticed) {
  Linear linear(kDeep, {.target = kTensorCores,
                        .rewrite = Plant("split[n].Add(weights, rows[c][n], step);", R"({
              MmaSplitSum all;
              for (int i = 0; i < 4; ++i) all.big[i] = sums[u][g][n][i], sums[u][g][n][i] = 0.0f;
              all.Add(weights, rows[c][n], step);
              all.AddTo(sums[u][g][n]);
            })")});
  FillWithOneSign(linear);
  EXPECT_NE(linear.RunAndCompare(), "");
}

TEST(SplitProductTest, NumbersAtTheUpperEndOfTheRangeStayWhatTheyAre) {
  Linear linear(70);
  linear.Fill([] { return 0.0f; }, [] { return 0.25f; });
  for (int32_t u = 0; u < kUnits; ++u) {
    linear.w(u, 3) = u % 2 == 0 ? 1.0f : 0x1p-10f;
    linear.w(u, 4) = -0x1p-20f;
  }
  for (int32_t n = 0; n < kNodes; ++n) linear.x(n)[3] = n % 2 == 0 ? kLargest : -kLargest;
  linear.w(5, 9) = kLargest;
  EXPECT_EQ(linear.RunAndCompare(), "");
  for (int32_t n = 0; n < kNodes; ++n) {
    for (const float y : linear.Left(n)) EXPECT_TRUE(std::isfinite(y)) << n;
  }
}

// As a plain product has it, in its own row alone: Inf with the sign of Inf times the weight, NaN of a zero or of both signs.
TEST(SplitProductTest, InfAndNaNStayInTheirRowAndAreWhatAPlainProductMakesOfThem) {
  const auto fill = [](Linear& linear) {
    std::mt19937 random(3);
    std::uniform_real_distribution<float> any(-1.0f, 1.0f);
    const auto value = [&] { return any(random); };
    linear.Fill(value, value);
    linear.w(7, 40) = 0.0f;
    linear.w(8, 40) = 0.5f;  // a rest of zero
    linear.w(3, 41) = kInf;  // a unit's own
    linear.w(4, 41) = -kInf;
    linear.w(5, 41) = std::nanf("");
  };
  const auto spoil = [](Linear& linear) {
    linear.x(1)[40] = kInf;
    linear.x(2)[40] = -kInf;
    linear.x(3)[40] = std::nanf("");
    linear.x(4)[40] = std::bit_cast<float>(0x7f800001u);  // NaN by its lowest bit alone
    linear.x(5)[40] = kInf, linear.x(5)[44] = -kInf;
  };
  Linear spoilt(70), sane(70), plain(70, {.target = {.fp32 = Fp32By::kFma}});
  for (Linear* const linear : {&spoilt, &sane, &plain}) fill(*linear);
  spoil(spoilt);
  spoil(plain);
  for (Linear* const linear : {&spoilt, &sane, &plain}) linear->Run();
  for (int32_t n = 0; n < kNodes; ++n) {
    const std::vector<float> got = spoilt.Left(n), expected = plain.Left(n);
    for (size_t u = 0; u < got.size(); ++u) {
      ASSERT_EQ(std::isnan(got[u]), std::isnan(expected[u])) << n << " " << u;
      if (std::isinf(expected[u])) {
        ASSERT_EQ(got[u], expected[u]) << n << " " << u;
      }
      ASSERT_EQ(std::isfinite(got[u]), std::isfinite(expected[u])) << n << " " << u;
      if (n < 1 || n > 5) {
        ASSERT_EQ(std::bit_cast<uint32_t>(got[u]), std::bit_cast<uint32_t>(sane.Left(n)[u])) << n;
      }
    }
  }
}

// Denormals of either side are zeros. What is lost of a small number is its rest where that would be one: below 2^-103 of its size.
TEST(SplitProductTest, DenormalsAreZerosAndSmallNumbersLoseNoMoreThanADenormal) {
  Linear linear(70);
  linear.Fill([] { return 0.0f; }, [] { return 0.0f; });
  const float tiny = 0x1p-127f, huge = 0x1p100f;
  for (int32_t u = 0; u < kUnits; ++u) {
    linear.w(u, 3) = u == 1 ? tiny : 0.0f;  // times huge
    linear.w(u, 5) = u == 2 ? huge : 0.0f;  // times tiny
    linear.w(u, 7) = u == 3 ? 1.0f : 0.0f;  // times 2^-110, all bits set
  }
  for (int32_t n = 0; n < kNodes; ++n) {
    linear.x(n)[3] = huge;
    linear.x(n)[5] = -tiny;
    linear.x(n)[7] = std::ldexp(2.0f - 0x1p-23f, -110);
  }
  linear.Run();
  for (int32_t n = 0; n < kNodes; ++n) {
    const std::vector<float> left = linear.Left(n);
    EXPECT_EQ(left[1], 0.0f);
    EXPECT_EQ(left[2], 0.0f);
    EXPECT_NEAR(left[3], std::ldexp(2.0f, -110), 0x1p-126f);
  }
}

}  // namespace
}  // namespace cellbatch
