// Products in tf32 on tensor cores (mma_product.cuh): of the numbers that rounding by the book leaves, at the ends of the range too,
// and that this would notice another rounding.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda_kernels/linear_trial.h"

namespace cellbatch {
namespace {

constexpr int32_t kNodes = LinearTrial::kNodes, kUnits = LinearTrial::kUnits;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

struct Linear : LinearTrial {
  explicit Linear(int32_t depth, EmulatedOptions options = {})
      : LinearTrial(depth, std::move(options), Precision::kTf32) {}
};

// By the book: eleven bits, to nearest, ties away from zero.
double Rounded(float x) {
  int exponent = 0;
  const double part = std::frexp(static_cast<double>(x), &exponent);
  return std::ldexp(std::round(std::ldexp(part, 11)), exponent - 11);
}

// One product a sum, which is exact: 22 bits. Of values of all sizes; every fourth is a tie. Whether all are as expected.
bool ProductsAreOfRoundedNumbers(const EmulatedOptions& options) {
  std::mt19937 random(3);
  const auto value = [&random] {
    auto bits = static_cast<uint32_t>(0x30000000u + random() % 0x20000000u);  // 2^-31 to 2^33
    if (random() % 4 == 0) bits = (bits & ~0x1fffu) | 0x1000u;
    return std::bit_cast<float>(bits) * (random() % 2 == 0 ? 1.0f : -1.0f);
  };
  bool right = true;
  for (int run = 0; run < 5; ++run) {
    Linear linear(40, options);
    linear.Fill([] { return 0.0f; }, [] { return 0.0f; });
    const int32_t k = static_cast<int32_t>(random() % 40);
    for (int32_t u = 0; u < kUnits; ++u) linear.w(u, k) = value();
    for (int32_t n = 0; n < kNodes; ++n) linear.x(n)[k] = value();
    linear.Run();
    for (int32_t n = 0; n < kNodes; ++n) {
      const std::vector<float> left = linear.Left(n);
      for (int32_t u = 0; u < kUnits; ++u) {
        const double expected = Rounded(linear.w(u, k)) * Rounded(linear.x(n)[k]);
        right = right && static_cast<double>(left[static_cast<size_t>(u)]) == expected;
      }
    }
    EXPECT_EQ(linear.Findings(), std::vector<std::string>());
  }
  return right;
}

TEST(Tf32ProductTest, ProductsAreOfNumbersRoundedToElevenBits) {
  EXPECT_TRUE(ProductsAreOfRoundedNumbers({}));
}

TEST(Tf32ProductTest, AnotherRoundingIsNoticed) {
  const std::string nearest = "(flushed + 0x1000u) & 0xffffe000u";
  for (const char* const other :
       {"flushed", "(flushed + 0x0fffu) & 0xffffe000u", "(flushed + 0x2000u) & 0xffffe000u",
        "(flushed + 0x0fffu + (flushed >> 13 & 1u)) & 0xffffe000u"}) {
    EXPECT_FALSE(ProductsAreOfRoundedNumbers({.rewrite = Plant(nearest, other)})) << other;
  }
}

// All of one sign and 4,100 of them: roundings cancel out, and tensor cores cut the same way when they add, 512 times.
TEST(Tf32ProductTest, ADeepSumIsThatOfItsProducts) {
  constexpr int32_t kDeep = 4100;
  Linear linear(kDeep);
  std::mt19937 random(3);
  std::uniform_real_distribution<float> from_1_to_2(1.0f, 2.0f);
  const auto value = [&] { return from_1_to_2(random); };
  linear.Fill(value, value);
  linear.Run();
  for (int32_t n = 0; n < kNodes; ++n) {
    const std::vector<float> left = linear.Left(n);
    for (int32_t u = 0; u < kUnits; ++u) {
      double sum = 0.0;
      for (int32_t k = 0; k < kDeep; ++k) sum += Rounded(linear.w(u, k)) * Rounded(linear.x(n)[k]);
      ASSERT_NEAR(left[static_cast<size_t>(u)], sum, 513 * 0x1p-22 * sum) << n << " " << u;
    }
  }
  EXPECT_EQ(linear.Findings(), std::vector<std::string>());
}

TEST(Tf32ProductTest, InfAndNaNStayInTheirRowAndAreWhatAPlainProductMakesOfThem) {
  const auto fill = [](LinearTrial& linear) {
    std::mt19937 random(3);
    std::uniform_real_distribution<float> any(-1.0f, 1.0f);
    const auto value = [&] { return any(random); };
    linear.Fill(value, value);
    linear.w(7, 40) = 0.0f;
  };
  const auto spoil = [](LinearTrial& linear) {
    linear.x(1)[40] = kInf;
    linear.x(2)[40] = -kInf;
    linear.x(3)[40] = std::nanf("");
    linear.x(4)[40] = std::bit_cast<float>(0x7f800001u);  // NaN by its lowest bit alone
    linear.x(5)[40] = std::bit_cast<float>(0xffffffffu);  // by all of them
    linear.x(6)[40] = kInf, linear.x(6)[44] = -kInf;
  };
  Linear spoilt(70), sane(70);
  LinearTrial plain(70, {.target = {.fp32 = Fp32By::kFma}});
  for (LinearTrial* const linear :
       {static_cast<LinearTrial*>(&spoilt), static_cast<LinearTrial*>(&sane), &plain}) {
    fill(*linear);
  }
  spoil(spoilt);
  spoil(plain);
  spoilt.Run();
  sane.Run();
  plain.Run();
  for (int32_t n = 0; n < kNodes; ++n) {
    const std::vector<float> got = spoilt.Left(n), expected = plain.Left(n), without = sane.Left(n);
    for (size_t u = 0; u < got.size(); ++u) {
      ASSERT_EQ(std::isnan(got[u]), std::isnan(expected[u])) << n << " " << u;
      if (std::isinf(expected[u])) {
        ASSERT_EQ(got[u], expected[u]) << n << " " << u;
      }
      ASSERT_EQ(std::isfinite(got[u]), std::isfinite(expected[u])) << n << " " << u;
      if (n < 1 || n > 6) {
        ASSERT_EQ(std::bit_cast<uint32_t>(got[u]), std::bit_cast<uint32_t>(without[u])) << n;
      }
    }
  }
}

// What is nearest to the largest rows is no number; denormals of either side are zeros.
TEST(Tf32ProductTest, TheEndsOfTheRange) {
  Linear linear(70);
  linear.Fill([] { return 0.0f; }, [] { return 0.0f; });
  const float tiny = 0x1p-127f, huge = 0x1p100f;
  for (int32_t u = 0; u < kUnits; ++u) {
    linear.w(u, 3) = u == 1 ? tiny : 0.0f;
    linear.w(u, 5) = u == 2 ? huge : 0.0f;
    linear.w(u, 7) = u == 3 ? 0.5f : 0x1p-10f;
  }
  for (int32_t n = 0; n < kNodes; ++n) {
    linear.x(n)[3] = huge;
    linear.x(n)[5] = -tiny;
    linear.x(n)[7] = n == 4 ? -kLargest : n == 5 ? 0x1.ffdffep127f : 0.0f;
  }
  linear.Run();
  for (int32_t n = 0; n < kNodes; ++n) {
    const std::vector<float> left = linear.Left(n);
    for (const size_t u : {size_t{1}, size_t{2}, size_t{3}}) {
      const float w = u == 3 ? 0.5f : 0x1p-10f;
      EXPECT_EQ(left[u], n == 4 ? -kInf : n == 5 ? w * 0x1.ffcp127f : 0.0f) << n << " " << u;
    }
  }
}

}  // namespace
}  // namespace cellbatch
