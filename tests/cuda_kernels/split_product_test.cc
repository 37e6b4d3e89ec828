// Fp32 on tensor cores, as three products of tf32 (mma_product.cuh): within the bound of design.md where it is hardest, what
// becomes of numbers at the ends of the range, and that the bound would notice if a part were missing.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/cuda_kernels/linear_trial.h"

namespace cellbatch {
namespace {

constexpr int32_t kNodes = LinearTrial::kNodes, kUnits = LinearTrial::kUnits;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

constexpr CudaTarget kTensorCores = {.fp32 = Fp32By::kTensorCores};
using Linear = LinearTrial;

// All of one sign: each cut takes the same way.
void FillWithOneSign(Linear& linear) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> from_1_to_2(1.0f, 2.0f);
  const auto value = [&] { return from_1_to_2(random); };
  linear.Fill(value, value);
}
constexpr int32_t kDeep = 4100;

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
