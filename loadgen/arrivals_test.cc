#include "loadgen/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace cellbatch {
namespace {

// Kolmogorov and Smirnov's statistic of the gaps against the exponential distribution, times the
// root of their number: beyond 1.63 with probability 0.01 where they are exponential.
double KolmogorovSmirnov(const std::vector<int64_t>& arrivals, double rate) {
  std::vector<double> gaps;
  for (size_t i = 1; i < arrivals.size(); ++i) {
    gaps.push_back(static_cast<double>(arrivals[i] - arrivals[i - 1]) * 1e-9);
  }
  std::sort(gaps.begin(), gaps.end());
  const double n = static_cast<double>(gaps.size());
  double largest = 0;
  for (size_t i = 0; i < gaps.size(); ++i) {
    const double expected = 1 - std::exp(-rate * gaps[i]);
    largest = std::max({largest, static_cast<double>(i + 1) / n - expected,
                        expected - static_cast<double>(i) / n});
  }
  return largest * std::sqrt(n);
}

TEST(ArrivalsTest, GapsOfAPoissonScheduleAreExponential) {
  for (uint64_t seed : {1, 2, 3, 4, 5}) {
    for (double rate : {5.0, 137.0, 20000.0}) {
      const auto arrivals = MakeArrivals({.rate = rate, .seconds = 20000 / rate, .seed = seed});
      EXPECT_LT(KolmogorovSmirnov(arrivals, rate), 1.63) << "seed " << seed << " rate " << rate;
      EXPECT_NEAR(static_cast<double>(arrivals.size()), 20000, 4 * std::sqrt(20000.0));
    }
  }
}

TEST(ArrivalsTest, TheTestOfTheGapsSeesASlightlyWrongRateAndEqualGaps) {
  const auto arrivals = MakeArrivals({.rate = 1000, .seconds = 20, .seed = 1});
  EXPECT_GT(KolmogorovSmirnov(arrivals, 1050), 1.63);
  const auto constant =
      MakeArrivals({.process = ArrivalProcess::kConstant, .rate = 1000, .seconds = 20});
  EXPECT_GT(KolmogorovSmirnov(constant, 1000), 1.63);
}

TEST(ArrivalsTest, NeighbouringGapsAreIndependent) {
  const auto arrivals = MakeArrivals({.rate = 1000, .seconds = 20, .seed = 9});
  double product = 0;
  double square = 0;
  for (size_t i = 2; i < arrivals.size(); ++i) {
    const double before = static_cast<double>(arrivals[i - 1] - arrivals[i - 2]) * 1e-6 - 1;
    const double after = static_cast<double>(arrivals[i] - arrivals[i - 1]) * 1e-6 - 1;
    product += before * after;
    square += before * before;
  }
  EXPECT_LT(std::abs(product / square), 4 / std::sqrt(20000.0));
}

TEST(ArrivalsTest, ConstantGapsDoNotDrift) {
  const auto arrivals =
      MakeArrivals({.process = ArrivalProcess::kConstant, .rate = 3, .seconds = 1000});
  ASSERT_EQ(arrivals.size(), 3000u);
  EXPECT_EQ(arrivals[0], 0);
  EXPECT_NEAR(static_cast<double>(arrivals[2999]), 2999 * 1e9 / 3, 1);
}

TEST(ArrivalsTest, TheSeedDecidesEverything) {
  const ArrivalOptions options{.rate = 500, .seconds = 2, .seed = 11};
  const auto arrivals = MakeArrivals(options);
  EXPECT_EQ(arrivals, MakeArrivals(options));
  EXPECT_NE(arrivals, MakeArrivals({.rate = 500, .seconds = 2, .seed = 12}));
  EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));
  EXPECT_LT(arrivals.back(), 2'000'000'000);
  // The same on every machine: a run can be repeated from its printed seed.
  EXPECT_EQ(arrivals[0], MakeArrivals({.rate = 500, .seconds = 9, .seed = 11})[0]);
}

}  // namespace
}  // namespace cellbatch
