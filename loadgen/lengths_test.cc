#include "loadgen/lengths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace cellbatch {
namespace {

class LengthsFileTest : public testing::Test {
 protected:
  absl::StatusOr<std::vector<int32_t>> Read(const std::string& text) {
    const std::string path = testing::TempDir() + "/lengths_test.txt";
    std::ofstream(path) << text;
    auto lengths = LengthsFromFile(path);
    std::remove(path.c_str());
    return lengths;
  }
};

TEST(LengthsTest, TheBuiltInLengthsAreThoseOfThePaper) {
  const auto lengths = EuroparlLikeLengths();
  ASSERT_EQ(lengths.size(), 1000u);
  const double mean = std::accumulate(lengths.begin(), lengths.end(), 0.0) / 1000;
  EXPECT_NEAR(mean, 24, 0.1);
  EXPECT_TRUE(std::is_sorted(lengths.begin(), lengths.end()));
  EXPECT_NEAR(lengths[989], 100, 5);
  EXPECT_EQ(lengths.back(), 330);
  EXPECT_GE(lengths.front(), 1);
}

TEST_F(LengthsFileTest, TheFirstColumnIsRead) {
  EXPECT_EQ(*Read("29\t38\n22\t31\n\n7\n 8 9\r\n"), (std::vector<int32_t>{29, 22, 7, 8}));
}

TEST_F(LengthsFileTest, ABadLineIsNamed) {
  const auto message = [this](const std::string& text) {
    const std::string whole(Read(text).status().message());
    return whole.substr(whole.find(": ") + 2);
  };
  EXPECT_EQ(message("3\nfour\t4\n"), "line 2 begins with \"four\", not with a positive number");
  EXPECT_EQ(message("0\n"), "line 1 begins with \"0\", not with a positive number");
  EXPECT_EQ(message("99999999999\n"),
            "line 1 begins with \"99999999999\", not with a positive number");
  EXPECT_EQ(message("\n"), "holds no lengths");
  EXPECT_EQ(LengthsFromFile("/nowhere/at/all").status().code(), absl::StatusCode::kNotFound);
}

TEST(EqualIssueTest, EveryIndexComesOnceInEachPermutation) {
  const auto order = EqualIssueOrder(7, 7 * 20, 3);
  for (size_t begin = 0; begin < order.size(); begin += 7) {
    const std::set<uint32_t> seen(order.begin() + begin, order.begin() + begin + 7);
    EXPECT_EQ(seen.size(), 7u) << "permutation at " << begin;
    EXPECT_EQ(*seen.rbegin(), 6u);
  }
}

TEST(EqualIssueTest, PermutationsDifferAndFollowTheSeed) {
  const auto order = EqualIssueOrder(100, 250, 3);
  EXPECT_EQ(order.size(), 250u);
  EXPECT_FALSE(std::equal(order.begin(), order.begin() + 100, order.begin() + 100));
  EXPECT_EQ(order, EqualIssueOrder(100, 250, 3));
  EXPECT_NE(order, EqualIssueOrder(100, 250, 4));
}

TEST(EqualIssueTest, EveryPlaceIsEquallyLikely) {
  // 4 values, 8,000 permutations: each value in each place 2,000 times, give or take 4 deviations.
  const auto order = EqualIssueOrder(4, 4 * 8000, 17);
  int counts[4][4] = {};
  for (size_t i = 0; i < order.size(); ++i) {
    ++counts[i % 4][order[i]];
  }
  for (const auto& place : counts) {
    for (int count : place) {
      EXPECT_NEAR(count, 2000, 4 * 39);
    }
  }
}

}  // namespace
}  // namespace cellbatch
