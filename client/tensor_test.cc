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

TEST(TensorTest, TheEndsOfWhatADatatypeHoldsComeBackAndWhatIsBeyondIsRefused) {
  struct Range {
    const char* datatype;
    double least, most, beyond;  // doubles; the last, the first that is too large
  };
  for (const Range& r :
       {Range{"UINT8", 0, 0xff, 0x1p8}, Range{"INT8", -0x1p7, 0x7f, 0x1p7},
        Range{"UINT16", 0, 0xffff, 0x1p16}, Range{"INT16", -0x1p15, 0x7fff, 0x1p15},
        Range{"UINT32", 0, 0x1p32 - 1, 0x1p32}, Range{"INT32", -0x1p31, 0x1p31 - 1, 0x1p31},
        Range{"UINT64", 0, 0x1p64 - 0x1p11, 0x1p64},
        Range{"INT64", -0x1p63, 0x1p63 - 0x1p10, 0x1p63},
        Range{"FP32", -0x1.fffffep127, 0x1.fffffep127, 0x1p128}}) {
    const auto tensor = TensorFromNumbers("N", r.datatype, {2}, {r.least, r.most});
    ASSERT_TRUE(tensor.ok()) << r.datatype;
    EXPECT_EQ(*tensor->AsDoubles(), (std::vector<double>{r.least, r.most})) << r.datatype;
    EXPECT_FALSE(TensorFromNumbers("N", r.datatype, {1}, {r.beyond}).ok()) << r.datatype;
  }
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(TensorFromNumbers("N", "FP32", {1}, {infinite}).ok()) << "a float, too";
  EXPECT_FALSE(TensorFromNumbers("N", "INT64", {1}, {infinite}).ok());
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
  for (const char* none : {"BYTES", "FP16", "BF16", "FLOAT"}) {
    EXPECT_FALSE(TensorFromNumbers("N", none, {1}, {1}).ok()) << none;
  }
}

TEST(TensorTest, HalfPrecisionValuesAreReadExactly) {
  const Tensor bf16{"B", "BF16", {2}, std::string("\x80\x3f\x20\xc1", 4)};
  EXPECT_EQ(*bf16.AsDoubles(), (std::vector<double>{1.0, -10.0}));
  // 1, -2, the smallest subnormal, the largest finite.
  const Tensor fp16{"H", "FP16", {4}, std::string("\x00\x3c\x00\xc0\x01\x00\xff\x7b", 8)};
  EXPECT_EQ(*fp16.AsDoubles(), (std::vector<double>{1.0, -2.0, 0x1p-24, 65504.0}));
  const Tensor none{"H", "FP16", {3}, std::string("\x00\x7c\x00\xfc\x01\x7c", 6)};
  const std::vector<double> values = *none.AsDoubles();
  EXPECT_EQ(values[0], std::numeric_limits<double>::infinity());
  EXPECT_EQ(values[1], -std::numeric_limits<double>::infinity());
  EXPECT_NE(values[2], values[2]) << "no number";
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
  EXPECT_EQ(std::string(TextTensor("T", {1}, {"a"}).AsDoubles().status().message()),
            "tensor T: datatype BYTES does not hold numbers");
}

TEST(TensorDeathTest, ValuesThatDoNotFillTheShapeEndTheProcess) {
  EXPECT_DEATH(Int32Tensor("T", {2}, {1}), "do not fill the shape");
  EXPECT_DEATH(FloatTensor("T", {}, {1, 2}), "do not fill the shape");
  EXPECT_DEATH(TextTensor("T", {-1}, {}), "do not fill the shape");
}

}  // namespace
}  // namespace cellbatch
