#include "server/convert/onnx_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace cellbatch {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

// As the file numbers them.
enum Type { kFloat = 1, kInt32 = 6, kInt64 = 7, kBool = 9, kHalf = 10, kDouble = 11, kBf16 = 16 };

template <typename T>
std::string Bytes(const std::vector<T>& numbers) {
  std::string bytes(numbers.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

onnx::Tensor Shaped(int type, const std::vector<int64_t>& dims) {
  onnx::Tensor tensor;
  tensor.set_data_type(type);
  for (const int64_t d : dims) tensor.add_dims(d);
  return tensor;
}
onnx::Tensor Raw(int type, int64_t count, const std::string& bytes) {
  onnx::Tensor tensor = Shaped(type, {count});
  tensor.set_raw_data(bytes);
  return tensor;
}

onnx::Model Model(const std::vector<std::pair<std::string, int64_t>>& opsets = {{"", 17}}) {
  onnx::Model model;
  model.mutable_graph()->set_name("g");
  for (const auto& [domain, version] : opsets) {
    onnx::OperatorSet& set = *model.add_opset_import();
    set.set_domain(domain);
    set.set_version(version);
  }
  return model;
}

class OnnxFileTest : public testing::Test {
 protected:
  std::vector<float> Floats(const onnx::Tensor& tensor) const {
    const auto read = file_.Tensor(tensor);
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() && read->floats != nullptr ? *read->floats : std::vector<float>();
  }
  std::vector<int64_t> Whole(const onnx::Tensor& tensor) const {
    const auto read = file_.Tensor(tensor);
    EXPECT_TRUE(read.ok()) << read.status();
    std::vector<int64_t> numbers;
    if (!read.ok() || read->integers == nullptr) return numbers;
    for (const OnnxDim& d : *read->integers) numbers.push_back(d.value);
    return numbers;
  }
  std::string Error(const onnx::Tensor& tensor) const {
    const auto read = file_.Tensor(tensor);
    return read.ok() ? "read" : std::string(read.status().message());
  }

  const std::string folder_ = testing::TempDir();
  const OnnxFile file_ = *OnnxFile::Parse(Model().SerializeAsString(), folder_);
};

TEST_F(OnnxFileTest, FloatsOfEveryWidthAreReadFromBytesAndFromTheirField) {
  onnx::Tensor field = Shaped(kFloat, {2});
  for (const float v : {1.0f, -0.5f}) field.add_float_data(v);
  EXPECT_THAT(Floats(field), ElementsAreArray({1.0f, -0.5f}));
  EXPECT_THAT(Floats(Raw(kFloat, 2, Bytes<float>({1, -0.5f}))), ElementsAreArray({1.0f, -0.5f}));

  const std::vector<double> doubles = {0.5, 1e300, -1e300, 1e-300};
  const std::vector<float> as_floats = {0.5f, INFINITY, -INFINITY, 0};
  field = Shaped(kDouble, {4});
  for (const double v : doubles) field.add_double_data(v);
  EXPECT_EQ(Floats(field), as_floats);
  EXPECT_EQ(Floats(Raw(kDouble, 4, Bytes(doubles))), as_floats);

  // One, minus two, the least and the largest without an exponent, the largest, the least with one, and what is infinite.
  const std::vector<uint16_t> halves = {0x3c00, 0xc000, 0x0001, 0x83ff,
                                        0x7bff, 0x0400, 0x7c00, 0xfc00};
  const std::vector<float> of_halves = {1,     -2,       0x1p-24f, -1023 * 0x1p-24f,
                                        65504, 0x1p-14f, INFINITY, -INFINITY};
  field = Shaped(kHalf, {8});
  for (const uint16_t v : halves) field.add_int32_data(v);
  EXPECT_EQ(Floats(field), of_halves);
  EXPECT_EQ(Floats(Raw(kHalf, 8, Bytes(halves))), of_halves);
  EXPECT_TRUE(std::isnan(Floats(Raw(kHalf, 1, Bytes<uint16_t>({0x7c01})))[0]));

  field = Shaped(kBf16, {2});
  for (const int32_t v : {0x3f80, 0xc120}) field.add_int32_data(v);
  EXPECT_THAT(Floats(field), ElementsAreArray({1.0f, -10.0f}));
  EXPECT_THAT(Floats(Raw(kBf16, 2, Bytes<uint16_t>({0x3f80, 0xc120}))),
              ElementsAreArray({1.0f, -10.0f}));
}

TEST_F(OnnxFileTest, SoAreWholeNumbersAndTruths) {
  onnx::Tensor field = Shaped(kInt64, {2});
  for (const int64_t v : {int64_t{-1}, int64_t{1} << 40}) field.add_int64_data(v);
  EXPECT_THAT(Whole(field), ElementsAreArray({int64_t{-1}, int64_t{1} << 40}));
  EXPECT_THAT(Whole(Raw(kInt64, 2, Bytes<int64_t>({-1, int64_t{1} << 40}))),
              ElementsAreArray({int64_t{-1}, int64_t{1} << 40}));
  field = Shaped(kInt32, {2});
  for (const int32_t v : {-1, 70000}) field.add_int32_data(v);
  EXPECT_THAT(Whole(field), ElementsAreArray({-1, 70000}));
  EXPECT_THAT(Whole(Raw(kInt32, 2, Bytes<int32_t>({-1, 70000}))), ElementsAreArray({-1, 70000}));
  EXPECT_THAT(Whole(Raw(kBool, 3, std::string("\0\1\1", 3))), ElementsAreArray({0, 1, 1}));
}

TEST_F(OnnxFileTest, NumbersThatAreNotTheShapesAreRefused) {
  EXPECT_EQ(Error(Raw(kFloat, 1, "1234567")), "its data is cut off");
  EXPECT_EQ(Error(Raw(kFloat, 1, "12345678")), "it holds 2 numbers, its shape [1] takes 1");
  EXPECT_EQ(Error(Raw(kInt64, 2, "12345678")), "it holds 1 numbers, its shape [2] takes 2");
  EXPECT_THAT(Error(Shaped(kFloat, {-1, -1})), HasSubstr("its shape [-1, -1] is beyond"));
  EXPECT_THAT(Error(Shaped(kFloat, {1 << 30, 2})), HasSubstr("is beyond 1073741824 elements"));
  // Of no elements, but a part of it would have more than can be counted.
  EXPECT_THAT(Error(Shaped(kFloat, {0, int64_t{1} << 62, 8})), HasSubstr("is beyond"));
  EXPECT_EQ(Error(Shaped(kFloat, {0, 8})), "read");
  EXPECT_EQ(Error(Shaped(kFloat, {0, 3})), "read") << "and has none";
  for (const auto& [type, said] :
       {std::pair(2, "UINT8"), {8, "STRING"}, {0, "UNDEFINED"}, {17, "17"}, {-1, "-1"}}) {
    EXPECT_THAT(Error(Raw(type, 1, "12345678")), HasSubstr(fmt::format("its type is {}; ", said)));
  }
}

TEST_F(OnnxFileTest, NumbersInAFileBesideItAreReadFromWhereTheyLie) {
  std::ofstream(folder_ + "/numbers.data", std::ios::binary) << Bytes<float>({7, 8, 9});
  const auto lying = [](const std::vector<std::pair<std::string, std::string>>& entries) {
    onnx::Tensor tensor = Shaped(kFloat, {2});
    tensor.set_data_location(1);
    for (const auto& [key, value] : entries) {
      onnx::StringPair& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    return tensor;
  };
  const std::pair<std::string, std::string> here = {"location", "numbers.data"};
  EXPECT_THAT(Floats(lying({here})), ElementsAreArray({7.0f, 8.0f}));
  EXPECT_THAT(Floats(lying({here, {"offset", "4"}, {"length", "8"}, {"checksum", "any"}})),
              ElementsAreArray({8.0f, 9.0f}));
  EXPECT_THAT(Error(lying({here, {"length", "12"}})), HasSubstr("its data is 12 bytes at 0 of"));
  EXPECT_THAT(Error(lying({here, {"offset", "5"}})), HasSubstr("which has 12, its shape takes 8"));
  EXPECT_THAT(Error(lying({here, {"offset", "13"}})), HasSubstr("its data is 8 bytes at 13 of"));
  EXPECT_EQ(Error(lying({here, {"offset", "4x"}})), "its data's offset is \"4x\"");
  EXPECT_EQ(Error(lying({here, {"length", "-8"}})), "its data's length is \"-8\"");
  EXPECT_EQ(Error(lying({{"offset", "0"}})), "its data lies in \"\", not beside the model");
}

TEST_F(OnnxFileTest, TheOpsetIsThatOfOnnxsOwnOperators) {
  const auto opset = [](const std::vector<std::pair<std::string, int64_t>>& opsets) {
    const auto file = OnnxFile::Parse(Model(opsets).SerializeAsString(), "");
    return file.ok() ? file->opset() : -1;
  };
  EXPECT_EQ(opset({{"", 7}}), 7);
  EXPECT_EQ(opset({{"", 6}}), -1);
  EXPECT_EQ(opset({{"ai.onnx", 13}}), 13);
  EXPECT_EQ(opset({{"", 17}, {"ai.onnx.ml", 3}}), 17);
  EXPECT_EQ(opset({{"ai.onnx.ml", 17}}), -1);
}

// What becomes messages many times its size is bounded; weights are not part of it.
TEST_F(OnnxFileTest, BytesOfTensorsAreNoStructure) {
  onnx::Model model = Model();
  const auto size = static_cast<size_t>(kMaxOnnxStructure);
  *model.mutable_graph()->add_initializer() =
      Raw(kBool, static_cast<int64_t>(size), std::string(size, '\1'));
  EXPECT_TRUE(OnnxFile::Parse(model.SerializeAsString(), "").ok());
  onnx::Tensor& in_a_node = *model.mutable_graph()->add_node()->add_attribute()->mutable_t();
  in_a_node = model.graph().initializer(0);
  EXPECT_TRUE(OnnxFile::Parse(model.SerializeAsString(), "").ok());
  const auto with_name = [](size_t bytes) {
    onnx::Model named = Model();
    named.mutable_graph()->set_name(std::string(bytes, 'n'));
    return named.SerializeAsString();
  };
  const size_t others = with_name(size).size() - size;
  EXPECT_TRUE(OnnxFile::Parse(with_name(size - others), "").ok());
  EXPECT_THAT(std::string(OnnxFile::Parse(with_name(size - others + 1), "").status().message()),
              HasSubstr(fmt::format("has {0} bytes beside its tensors' data, the limit is {1}",
                                    size + 1, size)));
}

TEST(OneFloatTest, IsOfATensorOfOneFloat) {
  EXPECT_EQ(OneFloat(Raw(kFloat, 1, Bytes<float>({3}))), 3.0f);
  EXPECT_EQ(OneFloat(Raw(kFloat, 2, Bytes<float>({3, 3}))), std::nullopt);
  EXPECT_EQ(OneFloat(Shaped(kFloat, {1})), std::nullopt);
  EXPECT_EQ(OneFloat(Raw(kInt64, 1, Bytes<int64_t>({3}))), std::nullopt);
}

}  // namespace
}  // namespace cellbatch
