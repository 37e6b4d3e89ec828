#include "server/cells/dimension.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cellbatch {
namespace {

using testing::HasSubstr;

int64_t Value(std::string_view text, const Sizes& sizes = {}) {
  const auto value = EvaluateDimension(text, sizes);
  EXPECT_TRUE(value.ok()) << value.status();
  return value.value_or(-1);
}

std::string ErrorOf(std::string_view text, const Sizes& sizes = {}) {
  const auto value = EvaluateDimension(text, sizes);
  return value.ok() ? "fine" : std::string(value.status().message());
}

TEST(DimensionTest, ArithmeticFollowsThePrecedenceOfSchool) {
  EXPECT_EQ(Value("4*H", {{"H", 512}}), 2048);
  EXPECT_EQ(Value(" 2 + 3 * ( H - 1 ) ", {{"H", 5}}), 14);
  EXPECT_EQ(Value("H/2", {{"H", 10}}), 5);
  EXPECT_EQ(Value("H - 2 - 3", {{"H", 10}}), 5);
  EXPECT_EQ(Value("0*N + 7"), 7) << "a size that cancels out need not be known";
}

TEST(DimensionTest, WhatIsWrongIsNamed) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("missing"));
  EXPECT_THAT(ErrorOf("4*"), HasSubstr("missing"));
  EXPECT_THAT(ErrorOf("(1"), HasSubstr("not closed"));
  EXPECT_THAT(ErrorOf("1)"), HasSubstr("left over"));
  EXPECT_THAT(ErrorOf("4x"), HasSubstr("no number"));
  EXPECT_THAT(ErrorOf("4*H"), HasSubstr("size H is not known"));
  EXPECT_THAT(ErrorOf("H/2", {{"H", 7}}), HasSubstr("7 / 2 does not come out even"));
  EXPECT_THAT(ErrorOf("1/0"), HasSubstr("division by zero"));
  EXPECT_THAT(ErrorOf("1-1/(1-1)"), HasSubstr("division by zero"));
  EXPECT_THAT(ErrorOf("99999999999999999999"), HasSubstr("beyond"));
  EXPECT_THAT(ErrorOf("2147483647*2147483647"), HasSubstr("beyond"));
  EXPECT_THAT(ErrorOf(std::string(1000, '1')), HasSubstr("1000 bytes"));
  EXPECT_THAT(ErrorOf(std::string(100, '(')), HasSubstr("parentheses"));
}

TEST(DimensionTest, OneEquationGivesOneSize) {
  using Found = std::pair<std::string, int64_t>;
  EXPECT_EQ(SolveDimension("4*H", 4096, {}), Found("H", 1024));
  EXPECT_EQ(SolveDimension("(H+1)*2", 10, {}), Found("H", 4));
  EXPECT_EQ(SolveDimension("H/2+1", 4, {}), Found("H", 6));
  EXPECT_EQ(SolveDimension("1+H/2", 4, {}), Found("H", 6));
  EXPECT_EQ(SolveDimension("(H/2)*3", 9, {}), Found("H", 6));
  EXPECT_EQ(SolveDimension("8 - H", 3, {}), Found("H", 5));
  EXPECT_EQ(SolveDimension("F + B", 12, {{"F", 5}}), Found("B", 7));
  EXPECT_EQ(SolveDimension("4*H", 4095, {}), std::nullopt) << "no whole number does it";
  EXPECT_EQ(SolveDimension("F + B", 12, {}), std::nullopt) << "two unknowns";
  EXPECT_EQ(SolveDimension("7", 7, {}), std::nullopt) << "nothing to find";
  EXPECT_EQ(SolveDimension("H*H", 49, {}), std::nullopt) << "not linear";
}

}  // namespace
}  // namespace cellbatch
