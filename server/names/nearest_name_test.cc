#include "server/names/nearest_name.h"

#include <gtest/gtest.h>

namespace cellbatch {
namespace {

TEST(NearestNameTest, ATypingErrorIsFound) {
  EXPECT_EQ(NearestName("form_x", {"b", "from_x", "from_h"}), "from_x");
  EXPECT_EQ(NearestName("lsmt", {"gru", "lstm"}), "lstm");
  EXPECT_EQ(NearestName("MATMULT", {"MUL", "MATMUL"}), "MATMUL");
  EXPECT_EQ(NearestName("w", {"U", "W"}), "W") << "case is nothing";
  EXPECT_EQ(NearestName("table", {"W", "embed/table"}), "embed/table");
}

TEST(NearestNameTest, AnotherNameIsNotMeant) {
  EXPECT_EQ(NearestName("W", {"U", "b"}), "");
  EXPECT_EQ(NearestName("hidden", {"h", "before"}), "");
  EXPECT_EQ(NearestName("", {"h"}), "");
  EXPECT_EQ(NearestName(std::string(65, 'a'), {std::string(65, 'a')}), "");
}

TEST(NearestNameTest, WhereNoneIsNearWhatThereIsIsSaid) {
  EXPECT_EQ(MeantOrThere("befor", {"x", "before"}), "; did you mean \"before\"?");
  EXPECT_EQ(MeantOrThere("hidden", {"x", "before"}), " (there are \"x\", \"before\")");
  EXPECT_EQ(MeantOrThere("hidden", {}), "");
  const std::string many = MeantOrThere("hidden", std::vector<std::string>(21, "x"));
  EXPECT_EQ(many.substr(many.size() - 8), "\"x\", ..)");
}

}  // namespace
}  // namespace cellbatch
