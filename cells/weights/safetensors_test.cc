#include "cells/weights/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

namespace cellbatch {
namespace {

using testing::HasSubstr;

std::string FileBytes(std::string_view json, std::string_view data, int64_t said_size = -1) {
  const uint64_t size = said_size < 0 ? json.size() : static_cast<uint64_t>(said_size);
  std::string bytes(sizeof(size), '\0');
  std::memcpy(bytes.data(), &size, sizeof(size));
  return bytes.append(json).append(data);
}

std::string ErrorOf(std::string_view json, std::string_view data) {
  const std::string bytes = FileBytes(json, data);
  const auto header = ParseSafetensorsHeader(bytes, bytes.size());
  if (header.ok()) return "accepted";
  EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(header.status().message());
}

std::string TempPath(const std::string& name) { return testing::TempDir() + "/" + name; }

void WriteBytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

template <typename T>
std::string Packed(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// Opens a file of one tensor "t" with `n` elements of `dtype` and reads it.
std::vector<float> ReadOne(std::string_view dtype, size_t n, const std::string& data) {
  const std::string path = TempPath("one.safetensors");
  WriteBytes(path, FileBytes(R"({"t":{"dtype":")" + std::string(dtype) + R"(","shape":[)" +
                                 std::to_string(n) + R"(],"data_offsets":[0,)" +
                                 std::to_string(data.size()) + "]}}",
                             data));
  auto file = SafetensorsFile::Open(path, 1 << 20);
  EXPECT_TRUE(file.ok()) << file.status();
  std::vector<float> values(n);
  EXPECT_TRUE(file->ReadTensor(*file->Find("t"), absl::MakeSpan(values)).ok());
  return values;
}

TEST(SafetensorsTest, WhatIsWrittenIsReadBack) {
  const std::vector<float> a = {1.5f, -2.0f, 3.25f, 0.0f, -0.0f, 1e-40f};
  const std::vector<float> b = {7.0f};
  const std::string path = TempPath("round.safetensors");
  ASSERT_TRUE(WriteSafetensors(path,
                               {{"rnn.weight", {2, 3}, a}, {"scalar", {}, b}, {"none", {0, 4}, {}}},
                               {{{"made", "by \"us\""}}})
                  .ok());
  auto file = SafetensorsFile::Open(path, 1 << 20);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->header().tensors.size(), 3u);
  EXPECT_EQ(file->header().metadata[0].second, "by \"us\"");
  EXPECT_EQ(file->header().data_begin % 8, 0u);
  const SafetensorsEntry* entry = file->Find("rnn.weight");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->shape, (std::vector<int64_t>{2, 3}));
  std::vector<float> read(6);
  ASSERT_TRUE(file->ReadTensor(*entry, absl::MakeSpan(read)).ok());
  EXPECT_EQ(std::memcmp(read.data(), a.data(), 24), 0);
  EXPECT_EQ(file->Find("scalar")->num_elements(), 1);
  EXPECT_EQ(file->Find("none")->num_elements(), 0);
  EXPECT_EQ(file->Find("rnn"), nullptr);
}

TEST(SafetensorsTest, AFileThatCannotBeWrittenLeavesTheOldOne) {
  const std::string path = TempPath("kept.safetensors");
  const std::vector<float> one = {1.0f};
  ASSERT_TRUE(WriteSafetensors(path, {{"t", {1}, one}}).ok());
  const absl::Status s = WriteSafetensors(path, {{"t", {1}, one}, {"t", {1}, one}});
  EXPECT_THAT(std::string(s.message()), HasSubstr("\"t\" is there twice"));
  EXPECT_FALSE(WriteSafetensors(path, {{"t", {2}, one}}).ok()) << "shape and values disagree";
  EXPECT_TRUE(SafetensorsFile::Open(path, 1 << 20).ok());
  EXPECT_FALSE(WriteSafetensors(TempPath("no/such/folder/f"), {{"t", {1}, one}}).ok());
}

TEST(SafetensorsTest, HalfPrecisionIsReadExactly) {
  EXPECT_EQ(ReadOne("F16", 6, Packed<uint16_t>({0x3c00, 0xc000, 0x7bff, 0x0001, 0x8000, 0x0400})),
            (std::vector<float>{1.0f, -2.0f, 65504.0f, 0x1p-24f, -0.0f, 0x1p-14f}));
  const std::vector<float> special = ReadOne("F16", 2, Packed<uint16_t>({0xfc00, 0x7e00}));
  EXPECT_EQ(special[0], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(special[1]));
  EXPECT_EQ(ReadOne("BF16", 3, Packed<uint16_t>({0x3f80, 0xc049, 0x0001})),
            (std::vector<float>{1.0f, -3.140625f, 0x1p-133f}));
}

TEST(SafetensorsTest, DoublesAreRoundedToNearestAndOverflowShows) {
  const std::vector<double> doubles = {0.1, -1e300, 1e300, 1e-320, 16777217.0};
  EXPECT_EQ(ReadOne("F64", 5, Packed(doubles)),
            (std::vector<float>{0.1f, -std::numeric_limits<float>::infinity(),
                                std::numeric_limits<float>::infinity(), 0.0f, 16777216.0f}));
}

TEST(SafetensorsTest, TensorsLongerThanAChunkAreConvertedWhole) {
  std::vector<double> doubles(200'001);
  for (size_t i = 0; i < doubles.size(); ++i) doubles[i] = static_cast<double>(i);
  const std::string path = TempPath("long.safetensors");
  const std::string size = std::to_string(doubles.size());
  WriteBytes(path, FileBytes(R"({"t":{"dtype":"F64","shape":[)" + size + R"(],"data_offsets":[0,)" +
                                 std::to_string(doubles.size() * 8) + "]}}",
                             Packed(doubles)));
  auto file = SafetensorsFile::Open(path, 1 << 24);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<float> values(doubles.size());
  ASSERT_TRUE(file->ReadTensor(*file->Find("t"), absl::MakeSpan(values)).ok());
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<float>(i));
}

TEST(SafetensorsTest, ATensorThatHoldsNoFloatsIsListedButNotRead) {
  const std::string path = TempPath("int.safetensors");
  WriteBytes(path, FileBytes(R"({"n":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})",
                             std::string(8, '\0')));
  auto file = SafetensorsFile::Open(path, 1 << 20);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_FALSE(file->Find("n")->is_float());
  float value = 0;
  const absl::Status s = file->ReadTensor(*file->Find("n"), absl::MakeSpan(&value, 1));
  EXPECT_THAT(std::string(s.message()), HasSubstr("tensor \"n\" is I64"));
}

TEST(SafetensorsTest, IntegersOfEveryWidthAreReadAsTheyAre) {
  const std::string path = TempPath("integers.safetensors");
  const auto read = [&path](const std::string& dtype, const std::string& data,
                            size_t n) -> std::vector<int64_t> {
    WriteBytes(path, FileBytes(R"({"t":{"dtype":")" + dtype + R"(","shape":[)" + std::to_string(n) +
                                   R"(],"data_offsets":[0,)" + std::to_string(data.size()) + "]}}",
                               data));
    auto file = SafetensorsFile::Open(path, 1 << 20);
    EXPECT_TRUE(file.ok()) << file.status();
    std::vector<int64_t> values(n);
    const absl::Status s = file->ReadIntegers(*file->Find("t"), absl::MakeSpan(values));
    EXPECT_TRUE(s.ok()) << s;
    return values;
  };
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(read("I64", Packed<int64_t>({kMost, -kMost - 1}), 2),
            (std::vector<int64_t>{kMost, -kMost - 1}));
  EXPECT_EQ(read("I32", Packed<int32_t>({1 << 30, -1}), 2), (std::vector<int64_t>{1 << 30, -1}));
  EXPECT_EQ(read("I16", Packed<int16_t>({0x7fff, -2}), 2), (std::vector<int64_t>{0x7fff, -2}));
  EXPECT_EQ(read("I8", Packed<int8_t>({127, -3}), 2), (std::vector<int64_t>{127, -3}));
  EXPECT_EQ(read("U8", Packed<uint8_t>({255, 0}), 2), (std::vector<int64_t>{255, 0}));
  EXPECT_EQ(read("U16", Packed<uint16_t>({0xffff}), 1), (std::vector<int64_t>{0xffff}));
  EXPECT_EQ(read("U32", Packed<uint32_t>({0xffffffffu}), 1), (std::vector<int64_t>{0xffffffff}));
}

TEST(SafetensorsTest, WhatHoldsNoIntegersIsNotReadAsSome) {
  const std::string path = TempPath("float.safetensors");
  const std::vector<float> one = {1.0f};
  ASSERT_TRUE(WriteSafetensors(path, {{"t", {1}, one}}).ok());
  auto file = SafetensorsFile::Open(path, 1 << 20);
  ASSERT_TRUE(file.ok()) << file.status();
  int64_t value = 0;
  const absl::Status s = file->ReadIntegers(*file->Find("t"), absl::MakeSpan(&value, 1));
  EXPECT_THAT(std::string(s.message()), HasSubstr("float.safetensors: tensor \"t\" is F32, which"));
}

TEST(SafetensorsTest, OffsetsMustMatchTheShapeAndCoverTheDataOnce) {
  const std::string four(4, '\0'), eight(8, '\0');
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", four),
              HasSubstr("\"a\": F32 [2] takes 8 bytes, its offsets are 0 to 4"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", four),
              HasSubstr("ends at byte 8 of the data, which has 4"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", eight),
              HasSubstr("the data has 8 bytes, the tensors take 4"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", eight),
              HasSubstr("starts at byte 4 of the data, leaving a gap after 0"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
                          "b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                      eight),
              HasSubstr("starts at byte 4 of the data, inside the tensor that ends at 8"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", four),
              HasSubstr("its offsets are 4 to 0"));
}

TEST(SafetensorsTest, NumbersThatOverflowAreRefusedBeforeAnythingIsAllocated) {
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],
                          "data_offsets":[0,0]}})",
                      ""),
              HasSubstr("shape [4294967296, 4294967296] overflows"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[9223372036854775808],
                          "data_offsets":[0,0]}})",
                      ""),
              HasSubstr("too large"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[99999999999999999999],
                          "data_offsets":[0,0]}})",
                      ""),
              HasSubstr("not a whole one"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})", ""),
              HasSubstr("negative"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],
                          "data_offsets":[0,1]}})",
                      "x"),
              HasSubstr("more than 8 numbers"));
}

TEST(SafetensorsTest, OnlyTheOneFormOfHeaderIsAccepted) {
  EXPECT_EQ(ErrorOf("{}", ""), "accepted");
  EXPECT_EQ(ErrorOf("{}     ", ""), "accepted") << "padding";
  EXPECT_EQ(ErrorOf(R"({"__metadata__":{"format":"pt"}})", ""), "accepted");
  EXPECT_THAT(ErrorOf("", ""), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf("[]", ""), HasSubstr("list where none belongs"));
  EXPECT_THAT(ErrorOf("3", ""), HasSubstr("a number where none belongs"));
  EXPECT_THAT(ErrorOf("{} {}", ""), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},
                          "a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
                      ""),
              HasSubstr("tensor \"a\": there twice"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","dtype":"F64"}})", ""), HasSubstr("there twice"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[0]}})", ""), HasSubstr("no data_offsets"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F33"}})", ""), HasSubstr("unknown dtype \"F33\""));
  EXPECT_THAT(ErrorOf(R"({"a":{"shape":{"b":1}}})", ""), HasSubstr("an object where none"));
  EXPECT_THAT(ErrorOf(R"({"a":{"shape":[[1]]}})", ""), HasSubstr("a list where none"));
  EXPECT_THAT(ErrorOf(R"({"a":{"color":"red"}})", ""), HasSubstr("unknown field \"color\""));
  EXPECT_THAT(ErrorOf(R"({"":{"dtype":"F32"}})", ""), HasSubstr("without a name"));
  EXPECT_THAT(ErrorOf("{\"" + std::string(5000, 'n') + "\":{}}", ""), HasSubstr("limit is 1024"));
  EXPECT_THAT(ErrorOf("{\"\xff\":{}}", ""), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf(std::string(100'000, '['), ""), HasSubstr("list where none belongs"));
  std::string nested;
  for (int i = 0; i < 100'000; ++i) nested += R"({"a":)";
  EXPECT_THAT(ErrorOf(nested, ""), HasSubstr("unknown field \"a\""));
}

TEST(SafetensorsTest, AHeaderLongerThanItsFileIsRefused) {
  for (const int64_t said : {int64_t{3}, int64_t{1} << 40, int64_t{-2}}) {
    std::string bytes = FileBytes("{}", "", said < 0 ? std::numeric_limits<int64_t>::max() : said);
    const auto header = ParseSafetensorsHeader(bytes, bytes.size());
    ASSERT_FALSE(header.ok());
    EXPECT_THAT(std::string(header.status().message()), HasSubstr("the header says it has"));
  }
  EXPECT_FALSE(ParseSafetensorsHeader("", 0).ok());
  EXPECT_FALSE(ParseSafetensorsHeader("1234567", 7).ok());
}

TEST(SafetensorsTest, EveryTruncationOfAFileIsRefused) {
  const std::vector<float> values = {1, 2, 3};
  const std::string path = TempPath("whole.safetensors");
  ASSERT_TRUE(WriteSafetensors(path, {{"t", {3}, values}}).ok());
  const size_t size = std::filesystem::file_size(path);
  for (size_t left = 0; left < size; ++left) {
    std::filesystem::resize_file(path, size - 1 - left);
    EXPECT_FALSE(SafetensorsFile::Open(path, 1 << 20).ok()) << size - 1 - left << " bytes left";
  }
}

TEST(SafetensorsTest, PathsThatAreNoFilesAndFilesThatAreTooLargeAreNamed) {
  EXPECT_EQ(SafetensorsFile::Open(TempPath("absent"), 100).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(SafetensorsFile::Open(testing::TempDir(), 100).status().message()),
              HasSubstr("no file"));
  const std::string path = TempPath("large.safetensors");
  WriteBytes(path, std::string(101, ' '));
  EXPECT_THAT(std::string(SafetensorsFile::Open(path, 100).status().message()),
              HasSubstr("large.safetensors: has 101 bytes, the limit is 100"));
}

}  // namespace
}  // namespace cellbatch
