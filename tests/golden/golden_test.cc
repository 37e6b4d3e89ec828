// PyTorch's own answers in double and ONNX Runtime's, against ours. All are committed with what made them:
// torch_cases.py (golden.json), torch_export.py (onnx/exported.json), onnx_cases.py (onnx/written.json).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/golden/compare.h"

namespace cellbatch::golden {
namespace {

// Compares every case of a file, and says how far each is from the bound. `interpreter`: the part of it that
// arithmetic in double may take, which is what the reference's own rounding takes.
void CheckCases(const std::string& path, size_t least, double interpreter) {
  const auto cases = ReadTorchCases(path);
  ASSERT_TRUE(cases.ok()) << cases.status();
  ASSERT_GE(cases->size(), least);
  const auto served = Served::Start(1);
  ASSERT_TRUE(served.ok()) << served.status();
  int32_t id = 0;
  for (const TorchCase& c : *cases) {
    const auto agreement = Compare(c, testing::TempDir() + "/golden", ModelId(id++), **served);
    ASSERT_TRUE(agreement.ok()) << c.name << ": " << agreement.status();
    EXPECT_GE(agreement->answers, 9) << c.name;
    EXPECT_LE(agreement->interpreted, interpreter) << c.name << ", by the interpreter";
    EXPECT_LE(agreement->served, 1) << c.name << ", served: " << agreement->worst;
    fmt::print("{:<36} interpreter {:.4f}, served {:.4f} of the bound (worst: {})\n", c.name,
               agreement->interpreted, agreement->served, agreement->worst);
  }
}

TEST(GoldenTest, ConvertedModulesAnswerAsPyTorchDoesInDouble) {
  CheckCases("tests/golden/golden.json", 21, 0.05);
}

// Files of torch.onnx.export, by both of its exporters.
TEST(GoldenTest, ExportedModulesAnswerAsPyTorchDoesInDouble) {
  CheckCases("tests/golden/onnx/exported.json", 9, 0.05);
}

// ONNX Runtime computes in fp32, with an error of its own.
TEST(GoldenTest, WrittenGraphsAnswerAsOnnxRuntimeDoes) {
  CheckCases("tests/golden/onnx/written.json", 6, 0.5);
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
