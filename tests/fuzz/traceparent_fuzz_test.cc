// Damaged traceparents: whatever is read writes itself back as it came, and whatever is not, a slow and obvious reading of the
// recommendation refuses, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <regex>
#include <string>

#include "server/trace/trace_context.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"

namespace cellbatch {
namespace {

constexpr uint64_t kSeed = 20211123;

bool ByTheBook(const std::string& text) {
  static const std::regex kForm("([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-[^]*)?");
  std::smatch parts;
  if (!std::regex_match(text, parts, kForm)) return false;
  const auto zeros = [](const std::string& digits) {
    return digits.find_first_not_of('0') == digits.npos;
  };
  if (parts[1] == "ff" || zeros(parts[2]) || zeros(parts[3])) return false;
  return parts[1] != "00" || text.size() == 55;
}

TEST(TraceparentFuzzTest, WhatIsReadIsWhatTheRecommendationAllowsAndSaysTheSame) {
  std::cout << "seed " << kSeed << "\n";
  Mutator mutator(kSeed, {"00-", "ff-", "cc-", "-", "-01", "A", "00000000000000000000000000000000",
                          "0000000000000000", std::string(1, '\0'), "\xff", "-more"});
  const std::string corpus[] = {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                "00-00000000000000000000000000000001-0000000000000001-00",
                                "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
                                "fe-ffffffffffffffffffffffffffffffff-ffffffffffffffff-ff"};
  int64_t read = 0, tried = 0;
  for (FuzzBudget budget(20'000); budget.Next(); ++tried) {
    const std::string text = mutator.Mutate(corpus[mutator.Below(std::size(corpus))]);
    const auto context = ParseTraceparent(text);
    ASSERT_EQ(context.has_value(), ByTheBook(text)) << text;
    if (!context) continue;
    ++read;
    EXPECT_EQ(Digits(context->trace), text.substr(3, 32));
    EXPECT_EQ(Digits(context->span), text.substr(36, 16));
    EXPECT_EQ(context->sampled, (std::stoi(text.substr(53, 2), nullptr, 16) & 1) != 0);
  }
  EXPECT_GT(read, tried / 100);
  EXPECT_LT(read, tried * 99 / 100);
}

}  // namespace
}  // namespace cellbatch
