// PyTorch's own answers, in double, against ours: golden.json is committed, torch_cases.py made it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/golden/compare.h"

namespace cellbatch::golden {
namespace {

TEST(GoldenTest, ConvertedModulesAnswerAsPyTorchDoesInDouble) {
  const auto cases = ReadTorchCases("tests/golden/golden.json");
  ASSERT_TRUE(cases.ok()) << cases.status();
  ASSERT_GE(cases->size(), 15u);
  const auto served = Served::Start(1);
  ASSERT_TRUE(served.ok()) << served.status();
  int32_t id = 0;
  for (const TorchCase& c : *cases) {
    const auto agreement = Compare(c, testing::TempDir() + "/golden", ModelId(id++), **served);
    ASSERT_TRUE(agreement.ok()) << c.name << ": " << agreement.status();
    EXPECT_GE(agreement->answers, 12) << c.name;
    EXPECT_LE(agreement->interpreted, 0.05) << c.name << ", by the interpreter";
    EXPECT_LE(agreement->served, 1) << c.name << ", served: " << agreement->worst;
    fmt::print("{:<36} interpreter {:.4f}, served {:.4f} of the bound (worst: {})\n", c.name,
               agreement->interpreted, agreement->served, agreement->worst);
  }
}

TEST(GoldenTest, TheBoundIsNoFormality) {
  const std::vector<double> y = {1, -2, 3};
  EXPECT_LE(PartOfBound(y, {1, -2, 3}), 0);
  EXPECT_LE(PartOfBound(y, {1.00001, -2, 3}), 1);
  EXPECT_GT(PartOfBound(y, {1.0001, -2, 3}), 1);
  EXPECT_GT(PartOfBound(y, {1, -2}), 1);
  EXPECT_GT(PartOfBound(y, {1, -2, std::nan("")}), 1);
}

}  // namespace
}  // namespace cellbatch::golden
