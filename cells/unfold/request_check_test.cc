#include "cells/unfold/request_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace cellbatch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

InputTensor Ids(const char* name, const std::vector<int32_t>& values) {
  return {name,
          WireType::kInt32,
          {static_cast<int64_t>(values.size())},
          {reinterpret_cast<const std::byte*>(values.data()), values.size() * 4}};
}

std::string Text(const absl::Status& status) { return std::string(status.message()); }

TEST(RequestCheckTest, AFormThatIsNotTheExpectedIsNamedWithBothValues) {
  const std::vector<int32_t> values(6);
  InputTensor t = Ids("WORDS", values);
  t.dims = {2, 3};
  EXPECT_TRUE(CheckTensor(t, WireType::kInt32, {-1, 3}).ok());
  EXPECT_THAT(Text(CheckTensor(t, WireType::kFp32, {-1, 3})),
              HasSubstr("input WORDS: datatype INT32, expected FP32"));
  EXPECT_THAT(Text(CheckTensor(t, WireType::kInt32, {-1})), HasSubstr("2 dimensions, expected 1"));
  EXPECT_THAT(Text(CheckTensor(t, WireType::kInt32, {-1, 2})),
              HasSubstr("shape [2, 3], expected [-1, 2]"));
  t.dims = {3, 3};
  EXPECT_THAT(Text(CheckTensor(t, WireType::kInt32, {-1, 3})),
              HasSubstr("24 bytes, shape [3, 3] takes 36"));
  t.dims = {0, 3};
  EXPECT_THAT(Text(CheckTensor(t, WireType::kInt32, {-1, 3})), HasSubstr("shape [0, 3]"));
  t.dims = {int64_t{1} << 62, 3};
  EXPECT_THAT(Text(CheckTensor(t, WireType::kInt32, {-1, 3})), HasSubstr("too large"));
  t.dims = {kMaxTensorRows, kMaxTensorRows, kMaxTensorRows};
  EXPECT_THAT(Text(CheckTensor(t, WireType::kInt32, {-1, -1, -1})), HasSubstr("too large"));
  t.dims = {kMaxTensorRows + 1};
  EXPECT_THAT(Text(CheckTensor(t, WireType::kInt32, {-1})), HasSubstr("too large"));
  t.dims = {kMaxTensorRows};
  EXPECT_THAT(Text(CheckTensor(t, WireType::kInt32, {-1})),
              HasSubstr("24 bytes, shape [268435456] takes 1073741824"));
  t.dims = {5};
  EXPECT_THAT(Text(CheckTensor(t, WireType::kInt32, {-1})),
              HasSubstr("24 bytes, shape [5] takes 20"));
}

TEST(RequestCheckTest, RowsThatAreNoneAreThoseOfATensorWithoutAny) {
  const std::vector<int32_t> values(6);
  RequestInput input;
  input.tensors = {Ids("WORDS", values)};
  EXPECT_EQ(FindRows(input, "CHARS"), nullptr);
  for (const auto& [rows, bytes] : {std::pair(6, 24), {0, 24}, {6, 0}}) {
    input.tensors[0].dims = {rows};
    input.tensors[0].bytes = Ids("WORDS", values).bytes.first(static_cast<size_t>(bytes));
    EXPECT_EQ(FindRows(input, "WORDS"), input.tensors.data()) << "that is wrong, who reads it says";
  }
  input.tensors[0].dims = {0, 3};
  EXPECT_EQ(FindRows(input, "WORDS"), nullptr);
  input.tensors[0].dims = {};
  EXPECT_EQ(FindRows(input, "WORDS"), input.tensors.data());
}

TEST(RequestCheckTest, UnknownIdsAreRefusedOrReplacedInACopyThatTheGraphKeeps) {
  const std::vector<int32_t> known = {0, 4, 2}, strange = {0, 5, -1};
  CellGraph graph;
  const InputTensor good = Ids("CHARS", known), bad = Ids("CHARS", strange);
  EXPECT_EQ(*KnownIds(good, "character", {5, {}}, graph), good.bytes.data());
  EXPECT_THAT(Text(KnownIds(bad, "character", {5, {}}, graph).status()),
              HasSubstr("input CHARS: character 1 is 5, the vocabulary ends at 4"));
  const auto replaced = KnownIds(bad, "character", {5, 3}, graph);
  ASSERT_TRUE(replaced.ok());
  std::vector<int32_t> values(3);
  std::memcpy(values.data(), *replaced, 12);
  EXPECT_THAT(values, ElementsAre(0, 3, 3));
  EXPECT_THAT(strange, ElementsAre(0, 5, -1));
}

TEST(RequestCheckTest, LengthsMustAddUpToTheSource) {
  const auto split = [](const std::vector<int32_t>& lengths, int64_t total, int64_t longest) {
    const InputTensor t = Ids("LENGTHS", lengths);
    return SplitByLengths(&t, "CHARS", total, longest);
  };
  const auto good = split({2, 3}, 5, 3);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ((*good)[1].offset, 2);
  EXPECT_EQ((*good)[1].length, 3);
  EXPECT_EQ((*SplitByLengths(nullptr, "CHARS", 5, 5))[0].length, 5);
  const auto error = [&](const std::vector<int32_t>& lengths) {
    return Text(split(lengths, 5, 4).status());
  };
  EXPECT_THAT(error({2, 0, 3}), HasSubstr("length 1 is 0, the least is 1"));
  EXPECT_THAT(error({2, -7}), HasSubstr("length 1 is -7"));
  EXPECT_THAT(error({5}), HasSubstr("length 0 is 5, the model takes 4"));
  EXPECT_THAT(error({2, 4}), HasSubstr("lengths 0 to 1 add up to 6, CHARS has 5"));
  EXPECT_THAT(error({2, 2}), HasSubstr("the lengths add up to 4, CHARS has 5"));
  EXPECT_THAT(error({4, 2147483647}), HasSubstr("length 1 is 2147483647"));
  EXPECT_THAT(Text(SplitByLengths(nullptr, "CHARS", 6, 5).status()),
              HasSubstr("input CHARS: length 6, the model takes 5"));
}

TEST(RequestCheckTest, NamesAreKnownAndOutputsAskedForOnce) {
  RequestInput input;
  input.tensors = {Ids("CHARS", {})};
  EXPECT_TRUE(CheckNames(input, {"WORDS", "CHARS"}).ok());
  EXPECT_THAT(Text(CheckNames(input, {"WORDS", "LENGTHS"})),
              HasSubstr("input CHARS: the model has no such input, it takes WORDS, LENGTHS"));
  const auto asked = [&](std::vector<std::string_view> outputs) {
    input.outputs = std::move(outputs);
    return AskedOutputs(input, {"OUTPUT", "FINAL_H"});
  };
  EXPECT_THAT(*asked({}), ElementsAre(true, false));
  EXPECT_THAT(*asked({"FINAL_H"}), ElementsAre(false, true));
  EXPECT_THAT(Text(asked({"FINAL_C"}).status()), HasSubstr("output FINAL_C"));
  EXPECT_THAT(Text(asked({"OUTPUT", "OUTPUT"}).status()), HasSubstr("asked for twice"));
}

}  // namespace
}  // namespace cellbatch
