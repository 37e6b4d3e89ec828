#include "server/http/kserve/infer_json.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/http/kserve/infer_reply.h"
#include "tests/testing/test_model.h"

namespace cellbatch {
namespace {

struct Parsed {
  InferJson json;
  absl::Status status;
  PlainRequest plain;
  Parsed(std::string_view body, std::optional<size_t> header_bytes, const WireLimits& limits = {})
      : status(json.Parse(body, header_bytes.value_or(body.size()), limits)) {
    if (status.ok()) json.Spell(plain);
  }
};

template <typename T>
std::vector<T> Values(const PlainTensor& tensor) {
  std::vector<T> values(tensor.contents.size() / sizeof(T));
  std::memcpy(values.data(), tensor.contents.data(), tensor.contents.size());
  return values;
}

std::string Data(const std::string& datatype, const std::string& data) {
  return fmt::format(R"({{"inputs":[{{"name":"X","shape":[1],"datatype":"{}","data":{}}}]}})",
                     datatype, data);
}

std::string ErrorOf(std::string_view body, const WireLimits& limits = {}) {
  const Parsed parsed(body, std::nullopt, limits);
  EXPECT_EQ(parsed.status.code(), absl::StatusCode::kInvalidArgument) << body;
  return std::string(parsed.status.message());
}

TEST(InferJsonTest, ARequestIsSpelledAsItWasWritten) {
  const std::string body = R"({"id":"né\u0041","parameters":{"priority":2,"timeout":1000,
      "flag":true,"text":"a","large":18446744073709551615,"real":0.5},
      "inputs":[{"name":"TOKENS","shape":[2,2],"datatype":"INT32","data":[[1,-2],[3,4]],"more":{"x":[1]}},
                {"name":"WORDS","shape":[2],"datatype":"BYTES","data":["a\u0000b",""]}],
      "outputs":[{"name":"OUTPUT","parameters":{"binary_data":true}},{"name":"LENGTH"}],"unknown":[{}]})";
  const Parsed parsed(body, std::nullopt);
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_EQ(parsed.json.id(), "néA");
  ASSERT_EQ(parsed.plain.inputs.size(), 2u);
  EXPECT_EQ(parsed.plain.inputs[0].name, "TOKENS");
  EXPECT_EQ(parsed.plain.inputs[0].datatype, "INT32");
  EXPECT_EQ(parsed.plain.inputs[0].shape, (absl::InlinedVector<int64_t, 4>{2, 2}));
  EXPECT_EQ(Values<int32_t>(parsed.plain.inputs[0]), (std::vector<int32_t>{1, -2, 3, 4}));
  EXPECT_EQ(parsed.plain.inputs[0].values, 4);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(parsed.plain.inputs[1].contents.data()),
                             parsed.plain.inputs[1].contents.size()),
            std::string_view("\3\0\0\0a\0b\0\0\0\0", 11));
  ASSERT_EQ(parsed.plain.parameters.size(), 6u);
  EXPECT_EQ(parsed.plain.parameters[0].value, PlainValue(int64_t{2}));
  EXPECT_EQ(parsed.plain.parameters[2].value, PlainValue(true));
  EXPECT_EQ(parsed.plain.parameters[3].value, PlainValue(std::string_view("a")));
  EXPECT_EQ(parsed.plain.parameters[4].value, PlainValue(~uint64_t{0}));
  EXPECT_EQ(parsed.plain.parameters[5].value, PlainValue());
  EXPECT_EQ(parsed.plain.outputs.size(), 2u);
  EXPECT_TRUE(parsed.json.WantsBinary("OUTPUT"));
  EXPECT_FALSE(parsed.json.WantsBinary("LENGTH"));
}

TEST(InferJsonTest, AnOutputIsBinaryAsItSaysItselfElseAsTheRequestSays) {
  const Parsed parsed(
      R"({"parameters":{"binary_data_output":true},"inputs":[],"outputs":[{"name":"A"},
      {"name":"B","parameters":{"binary_data":false}},{"name":"C","parameters":{"classification":3}}]})",
      std::nullopt);
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_TRUE(parsed.json.WantsBinary("A"));
  EXPECT_FALSE(parsed.json.WantsBinary("B"));
  EXPECT_TRUE(parsed.json.WantsBinary("C"));
  EXPECT_TRUE(parsed.json.WantsBinary("not named"));
  EXPECT_EQ(parsed.plain.outputs[2].unsupported, "classification");
}

TEST(InferJsonTest, TensorsInSharedMemoryAreToldToBeUnsupported) {
  const Parsed parsed(R"({"inputs":[{"name":"A","shape":[1],"datatype":"INT32",
      "parameters":{"shared_memory_region":"r"}}],
      "outputs":[{"name":"B","parameters":{"shared_memory_region":"r"}}]})",
                      std::nullopt);
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_EQ(parsed.plain.inputs[0].unsupported, "shared_memory_region");
  EXPECT_EQ(parsed.plain.outputs[0].unsupported, "shared_memory_region");
}

TEST(InferJsonTest, AFloatMayBeAWholeNumberOf64Bits) {
  const std::string body = Data("FP32", "[18446744073709551615]");
  const Parsed parsed(body, std::nullopt);
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_EQ(Values<float>(parsed.plain.inputs[0]), (std::vector<float>{0x1p64F}));
}

TEST(InferJsonTest, MembersOfAnInputMayComeInAnyOrder) {
  const Parsed parsed(R"({"inputs":[
      {"data":[1,2],"shape":[2],"datatype":"INT64","name":"A"},
      {"datatype":"FP32","data":[0.5],"name":"B","shape":[1]},
      {"data":["x"],"datatype":"BYTES","name":"C","shape":[1]}]})",
                      std::nullopt);
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_EQ(Values<int64_t>(parsed.plain.inputs[0]), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(parsed.plain.inputs[0].values, 2);
  EXPECT_EQ(Values<float>(parsed.plain.inputs[1]), (std::vector<float>{0.5f}));
  EXPECT_EQ(parsed.plain.inputs[1].values, 1);
  EXPECT_EQ(parsed.plain.inputs[2].contents.size(), 5u);
}

TEST(InferJsonTest, WholeNumbersOf64BitsSurvive) {
  const std::vector<int64_t> numbers = {std::numeric_limits<int64_t>::min(),
                                        std::numeric_limits<int64_t>::max(), (int64_t{1} << 53) + 1,
                                        0, -1};
  const std::string body = Data("INT64", fmt::format("[{}]", fmt::join(numbers, ",")));
  const Parsed parsed(body, std::nullopt);
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_EQ(Values<int64_t>(parsed.plain.inputs[0]), numbers);
}

// Every finite float is what it was, there and back; the signs of zeros, too.
TEST(InferJsonTest, Fp32GoesThereAndBackWithEveryBit) {
  const uint64_t seed = 20261122;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::vector<float> floats = {0.0f,
                               -0.0f,
                               1.0f,
                               std::numeric_limits<float>::denorm_min(),
                               -std::numeric_limits<float>::min(),
                               std::numeric_limits<float>::max(),
                               16777217.0f,
                               0.1f};
  while (floats.size() < 20'000) {
    const auto bits = static_cast<uint32_t>(random());
    float number;
    std::memcpy(&number, &bits, 4);
    if (std::isfinite(number)) floats.push_back(number);
  }
  const InferReply reply{
      .id = "",
      .model_name = "m",
      .model_version = "1",
      .tensors = {{.name = "OUTPUT",
                   .type = WireType::kFp32,
                   .dims = {static_cast<int64_t>(floats.size())},
                   .contents = std::string(reinterpret_cast<const char*>(floats.data()),
                                           floats.size() * sizeof(float)),
                   .binary = false}}};
  const auto encoded = EncodeReply(reply);
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  const size_t data = encoded->body.find("\"data\":") + 7;
  const std::string list = encoded->body.substr(data, encoded->body.find(']', data) + 1 - data);
  const std::string body = Data("FP32", list);
  const Parsed parsed(body, std::nullopt);
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  const std::vector<float> back = Values<float>(parsed.plain.inputs[0]);
  ASSERT_EQ(back.size(), floats.size());
  EXPECT_EQ(std::memcmp(back.data(), floats.data(), floats.size() * sizeof(float)), 0);
}

// Halfway between two floats in double, and a little above it in the text.
TEST(InferJsonTest, Fp32IsRoundedOnce) {
  const std::string body = Data("FP32", "[1.00000005960464477539062500000000001, 16777217, 1e-60]");
  const Parsed parsed(body, std::nullopt);
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_EQ(Values<float>(parsed.plain.inputs[0]),
            (std::vector<float>{std::nextafter(1.0f, 2.0f), 16777216.0f, 0.0f}));
}

TEST(InferJsonTest, BytesBehindTheJsonGoToTheirInputsInTheirOrder) {
  const std::string json = R"({"inputs":[
      {"name":"A","shape":[1],"datatype":"INT32","parameters":{"binary_data_size":4}},
      {"name":"B","shape":[1],"datatype":"INT32","data":[7]},
      {"name":"C","shape":[2],"datatype":"INT32","parameters":{"binary_data_size":8}}],
      "parameters":{"binary_data_output":true}})";
  const int32_t numbers[] = {1, 2, 3};
  std::string body = json;
  body.append(reinterpret_cast<const char*>(numbers), sizeof(numbers));
  const Parsed parsed(body, json.size());
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_EQ(Values<int32_t>(parsed.plain.inputs[0]), (std::vector<int32_t>{1}));
  EXPECT_EQ(Values<int32_t>(parsed.plain.inputs[1]), (std::vector<int32_t>{7}));
  EXPECT_EQ(Values<int32_t>(parsed.plain.inputs[2]), (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(parsed.plain.inputs[2].values, -1);
  EXPECT_TRUE(parsed.json.WantsBinary("OUTPUT"));

  const Parsed short_by_one(std::string_view(body).substr(0, body.size() - 1), json.size());
  EXPECT_EQ(short_by_one.status.message(),
            "input \"C\": binary_data_size is 8, 7 bytes are left behind the JSON");
  const Parsed long_by_one(body + "x", json.size());
  EXPECT_EQ(long_by_one.status.message(),
            "1 bytes behind the JSON are of no input's binary_data_size");
  const Parsed too_far(body, body.size() + 1);
  EXPECT_FALSE(too_far.status.ok());
}

TEST(InferJsonTest, WhatIsWrongIsNamed) {
  EXPECT_EQ(ErrorOf(""), "malformed JSON at byte 1");
  EXPECT_EQ(ErrorOf(R"({"inputs":[nonsense])"), "malformed JSON at byte 13");
  for (const char* value : {"NaN", "Infinity", "-Infinity"}) {
    EXPECT_EQ(
        ErrorOf(std::string(R"({"inputs":[{"data":[1,)") + value + "]}]}"),
        fmt::format("malformed JSON at byte {}, which has no NaN and no infinities: send them "
                    "with binary_data_size",
                    value[0] == '-' ? 24 : 23));
  }
  EXPECT_EQ(ErrorOf("[]"), "the request is no JSON object");
  EXPECT_EQ(ErrorOf("7"), "the request is no JSON object");
  EXPECT_EQ(ErrorOf(R"({"inputs":{}})"), "\"inputs\": expected a list");
  EXPECT_EQ(ErrorOf(R"({"inputs":[7]})"), "inputs and outputs: expected objects");
  EXPECT_EQ(ErrorOf(R"({"id":7})"), "\"id\": expected a string");
  EXPECT_EQ(ErrorOf(Data("INT32", "[1.5]")), "input \"X\": value 0 of data is 1.5, no INT32");
  EXPECT_EQ(ErrorOf(Data("INT32", "[0,2147483648]")),
            "input \"X\": value 1 of data is 2147483648, no INT32");
  EXPECT_EQ(ErrorOf(Data("INT64", "[9223372036854775808]")),
            "input \"X\": value 0 of data is 9223372036854775808, no INT64");
  EXPECT_EQ(ErrorOf(Data("FP32", "[1e39]")), "input \"X\": value 0 of data is 1e39, no FP32");
  EXPECT_EQ(ErrorOf(Data("FP32", "[null]")), "input \"X\": value 0 of data is null, no FP32");
  EXPECT_EQ(ErrorOf(Data("BYTES", "[1]")), "input \"X\": value 0 of data is 1, no BYTES");
  EXPECT_EQ(ErrorOf(Data("INT32", R"(["1"])")), "input \"X\": value 0 of data is \"1\", no INT32");
  EXPECT_EQ(ErrorOf(Data("FP32", "[true]")), "input \"X\": value 0 of data is true, no FP32");
  EXPECT_EQ(ErrorOf(Data("FP32", "[0.1" + std::string(100, '1') + "e99]")),
            "input \"X\": value 0 of data is 0.1" + std::string(61, '1') + ".., no FP32");
  EXPECT_EQ(ErrorOf(R"({"inputs":[{"data":[1,1e400]}]})"),
            "a number that ends at byte 27 is beyond 64 bits of floating point");
  EXPECT_EQ(ErrorOf(Data("INT32", "[{}]")), "input \"X\": objects in data");
  EXPECT_EQ(ErrorOf(Data("INT32", R"([1],"data":[2])")), "input \"X\": data is given twice");
  EXPECT_EQ(ErrorOf(Data("INT32", R"([1],"datatype":"FP32")")),
            "input \"X\": datatype is given twice");
  EXPECT_EQ(ErrorOf(R"({"parameters":{"a":[1]}})"),
            "parameter \"a\" is neither a number, a text nor true or false");
  EXPECT_EQ(ErrorOf(R"({"parameters":{"a":1,"a":2}})"), "parameter \"a\" is given twice");
  EXPECT_EQ(ErrorOf(R"({"inputs":[{"name":"X","data":[1],"parameters":{"binary_data_size":0}}]})"),
            "input \"X\": both data and binary_data_size");
  EXPECT_EQ(ErrorOf(R"({"inputs":[{"name":"X","parameters":{"binary_data_size":-1}}]})"),
            "\"binary_data_size\": expected a number of bytes");
}

// Rows in rows are one list of numbers; a second look, for "data" before its "datatype", counts nothing again.
TEST(InferJsonTest, BoundsThatAreJustKeptAreKept) {
  const WireLimits limits{.max_elements = 6, .max_bytes_elements = 2, .max_messages = 5};
  const Parsed parsed(
      R"({"inputs":[{"data":[[1,2],[3,4],[5]],"shape":[5],"name":"X","datatype":"INT32"}]})",
      std::nullopt, limits);
  EXPECT_TRUE(parsed.status.ok()) << parsed.status;
}

TEST(InferJsonTest, WhatIsRefusedForABoundIsCountedByItAndOtherMistakesAreNot) {
  RefusalCounts counts;
  const auto parse = [&counts](std::string_view body) {
    const WireLimits limits{.max_inputs = 1, .max_elements = 2};
    EXPECT_FALSE(InferJson().Parse(body, body.size(), limits, &counts).ok()) << body;
  };
  parse(R"({"inputs":[{},{}]})");
  parse(Data("INT32", "[1,2]"));
  parse("{");
  parse(R"({"inputs":7})");
  EXPECT_EQ(counts.Of(Refused::kField), 1);
  EXPECT_EQ(counts.Of(Refused::kNumbers), 1);
  EXPECT_EQ(counts.Of(Refused::kMalformed), 1);
}

TEST(InferJsonTest, EveryCountIsBounded) {
  const WireLimits limits{.max_inputs = 2,
                          .max_outputs = 2,
                          .max_parameters = 2,
                          .max_dims = 2,
                          .max_elements = 4,
                          .max_bytes_elements = 2};
  EXPECT_EQ(ErrorOf(R"({"inputs":[{},{},{}]})", limits), "more than 2 inputs");
  EXPECT_EQ(ErrorOf(R"({"outputs":[{},{},{}]})", limits), "more than 2 outputs");
  EXPECT_EQ(ErrorOf(R"({"parameters":{"a":1,"b":2,"c":3}})", limits), "more than 2 parameters");
  EXPECT_EQ(ErrorOf(R"({"inputs":[{"name":"X","shape":[1,1,1]}]})", limits),
            "input \"X\": more than 2 dimensions");
  EXPECT_EQ(ErrorOf(Data("INT32", "[1,2,3,4,5]"), limits),
            "the request has 5 numbers or more, the most is 4 (--grpc-max-numbers)");
  EXPECT_EQ(ErrorOf(Data("BYTES", R"([""])"), limits),
            "the request has 3 texts or more, the most is 2 (--grpc-max-texts)")
      << "a name and a datatype are texts";
  const WireLimits few{.max_messages = 4, .max_unknown_fields = 2};
  EXPECT_EQ(ErrorOf(R"({"inputs":[{"shape":[]},{"shape":[]}]})", few),
            "the request has 5 lists and objects or more, the most is 4 (--grpc-max-submessages)");
  for (const char* unread : {R"({"x":1,"y":"","z":true})", R"({"x":[1,2]})",
                             R"({"inputs":[{"x":1,"parameters":{"y":2,"z":3}}]})",
                             R"({"outputs":[{"x":1,"parameters":{"y":2,"z":3}}]})"}) {
    EXPECT_EQ(ErrorOf(unread, few),
              "the request has 3 unknown members or more, the most is 2 "
              "(--grpc-max-unknown-fields)")
        << unread;
  }
  EXPECT_EQ(ErrorOf(Data("INT32", std::string(100'000, '['))), "the JSON is nested too deeply");
  EXPECT_EQ(ErrorOf(R"({"x":)" + std::string(100'000, '[')), "the JSON is nested too deeply");
}

TEST(InferReplyTest, SaysWhatTritonSays) {
  const int32_t length = 2;
  const float output[] = {0.5f, -1e-8f};
  const auto bytes = [](const auto& values) {
    return std::string(reinterpret_cast<const char*>(&values), sizeof(values));
  };
  InferReply reply{
      .id = "a\"b",
      .model_name = "tiny",
      .model_version = "3",
      .tensors = {
          {"OUTPUT", WireType::kFp32, {1, 2}, bytes(output), true},
          {"LENGTH", WireType::kInt32, {1}, bytes(length), false},
          {"LABELS", WireType::kBytes, {2}, std::string("\1\0\0\0O\3\0\0\0\"\n\xff", 12), false},
          {"NONE", WireType::kInt64, {0}, "", false}}};
  auto encoded = EncodeReply(reply);
  ASSERT_TRUE(encoded.ok());
  EXPECT_EQ(
      encoded->body.substr(0, encoded->json_bytes),
      R"({"id":"a\"b","model_name":"tiny","model_version":"3","outputs":[)"
      R"({"name":"OUTPUT","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}},)"
      R"({"name":"LENGTH","datatype":"INT32","shape":[1],"data":[2]},)"
      "{\"name\":\"LABELS\",\"datatype\":\"BYTES\",\"shape\":[2],\"data\":[\"O\",\"\\\"\\n\uFFFD\"]"
      "},"
      R"({"name":"NONE","datatype":"INT64","shape":[0],"data":[]}]})");
  EXPECT_EQ(encoded->body.substr(encoded->json_bytes), bytes(output));
  EXPECT_TRUE(nlohmann::json::accept(encoded->body.substr(0, encoded->json_bytes)));

  const float bad = std::numeric_limits<float>::quiet_NaN();
  reply.tensors = {{"OUTPUT", WireType::kFp32, {1}, bytes(bad), false}};
  EXPECT_EQ(EncodeReply(reply).status().code(), absl::StatusCode::kInvalidArgument);
  reply.tensors[0].binary = true;
  EXPECT_TRUE(EncodeReply(reply).ok());
}

}  // namespace
}  // namespace cellbatch
