#include "client/tensor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace cellbatch {
namespace {

TEST(TensorTest, BytesAreLittleEndianAndRowMajor) {
  const Tensor tensor = Int32Tensor("T", {2, 1}, {1, -2});
  EXPECT_EQ(tensor.datatype, "INT32");
  EXPECT_EQ(tensor.bytes, std::string("\x01\0\0\0\xfe\xff\xff\xff", 8));
}

TEST(TensorTest, TextsKeepEmptyElementsAndZeroBytes) {
  const std::vector<std::string> texts = {"", std::string("a\0b", 3), "word"};
  const Tensor tensor = TextTensor("W", {3}, texts);
  EXPECT_EQ(tensor.bytes.size(), 4 + 4 + 3 + 4 + 4u);
  ASSERT_TRUE(tensor.AsTexts().ok());
  EXPECT_EQ(*tensor.AsTexts(), texts);
}

TEST(TensorTest, ATextThatClaimsMoreBytesThanThereAreIsAnError) {
  Tensor tensor = TextTensor("W", {1}, {"word"});
  tensor.bytes.pop_back();
  const auto texts = tensor.AsTexts();
  EXPECT_EQ(texts.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(texts.status().message()),
            "tensor W: element 0 claims 4 bytes, 3 are left");
}

TEST(TensorTest, ShapesAreCheckedForOverflow) {
  const int64_t large = int64_t{1} << 40;
  EXPECT_FALSE(ElementCount({large, large}).ok());
  EXPECT_FALSE(ElementCount({large, large, 0}).ok());
  EXPECT_FALSE(ElementCount({-1}).ok());
  EXPECT_EQ(*ElementCount({}), 1);
  EXPECT_EQ(*ElementCount({3, 0, 5}), 0);
  EXPECT_EQ(*ElementCount({3, 4, 5}), 60);
}

TEST(TensorTest, NumbersOfEveryDatatypeComeBackAsTheyWent) {
  for (const char* datatype : {"BOOL", "UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32",
                               "UINT64", "INT64", "FP32", "FP64"}) {
    const auto tensor = TensorFromNumbers("N", datatype, {3}, {0, 1, 100});
    ASSERT_TRUE(tensor.ok()) << datatype;
    EXPECT_EQ(static_cast<int64_t>(tensor->bytes.size()), 3 * ElementBytes(datatype));
    EXPECT_EQ(*tensor->AsDoubles(), (std::vector<double>{0, 1, 100})) << datatype;
  }
}

TEST(TensorTest, AValueThatDoesNotFitItsDatatypeIsAnError) {
  EXPECT_FALSE(TensorFromNumbers("N", "INT8", {1}, {128}).ok());
  EXPECT_TRUE(TensorFromNumbers("N", "INT8", {1}, {-128}).ok());
  EXPECT_FALSE(TensorFromNumbers("N", "UINT8", {1}, {-1}).ok());
  EXPECT_FALSE(TensorFromNumbers("N", "INT32", {1}, {0.5}).ok());
  EXPECT_FALSE(TensorFromNumbers("N", "INT64", {1}, {9223372036854775808.0}).ok());
  EXPECT_FALSE(
      TensorFromNumbers("N", "INT32", {1}, {std::numeric_limits<double>::quiet_NaN()}).ok());
  EXPECT_FALSE(TensorFromNumbers("N", "INT32", {2}, {1}).ok());
  EXPECT_FALSE(TensorFromNumbers("N", "BYTES", {1}, {1}).ok());
}

TEST(TensorTest, HalfPrecisionValuesAreReadExactly) {
  const Tensor bf16{"B", "BF16", {2}, std::string("\x80\x3f\x20\xc1", 4)};
  EXPECT_EQ(*bf16.AsDoubles(), (std::vector<double>{1.0, -10.0}));
  // 1, -2, the smallest subnormal, the largest finite.
  const Tensor fp16{"H", "FP16", {4}, std::string("\x00\x3c\x00\xc0\x01\x00\xff\x7b", 8)};
  EXPECT_EQ(*fp16.AsDoubles(), (std::vector<double>{1.0, -2.0, 0x1p-24, 65504.0}));
}

TEST(TensorTest, ReadingTheWrongDatatypeNamesBoth) {
  const auto ints = FloatTensor("OUTPUT", {1}, {1}).AsInts();
  EXPECT_EQ(std::string(ints.status().message()),
            "tensor OUTPUT: datatype FP32 where INT32 was wanted");
}

TEST(TensorTest, BytesThatDoNotFillTheShapeAreAnError) {
  Tensor tensor = FloatTensor("OUTPUT", {2}, {1, 2});
  tensor.bytes.pop_back();
  EXPECT_FALSE(tensor.AsFloats().ok());
  EXPECT_FALSE(tensor.AsDoubles().ok());
}

TEST(TensorDeathTest, ValuesThatDoNotFillTheShapeEndTheProcess) {
  EXPECT_DEATH(Int32Tensor("T", {2}, {1}), "do not fill the shape");
}

}  // namespace
}  // namespace cellbatch
