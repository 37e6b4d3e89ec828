#include "server/wire/wire_codec.h"

#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cells/vocabulary.h"
#include "gtest/gtest.h"
#include "server/requests/client_text.h"
#include "server/requests/decoded_request.h"

namespace cellbatch {
namespace {

using inference::ModelInferRequest;

// Reads TOKENS [-1] with 100 words, or X [-1, 4]; also a fixed INT32 and a BYTES input, both optional.
Model Tagger() {
  Model model;
  model.name = "tagger";
  model.version = 3;
  model.signature.inputs = {{"TOKENS", WireType::kInt32, {-1}, true, false},
                            {"X", WireType::kFp32, {-1, 4}, true, false},
                            {"TEXT", WireType::kBytes, {-1}, true, false}};
  model.signature.outputs = {{"OUTPUT", WireType::kFp32, {2}, false, false},
                             {"FINAL_H", WireType::kFp32, {1, 2}, false, true}};
  model.signature.vocabulary_size = 100;
  model.signature.unknown_token = 7;
  model.signature.max_sequence_length = 50;
  return model;
}

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

ModelInferRequest Tokens(const std::vector<int32_t>& tokens) {
  ModelInferRequest request;
  request.set_model_name("tagger");
  auto* input = request.add_inputs();
  input->set_name("TOKENS");
  input->set_datatype("INT32");
  input->add_shape(static_cast<int64_t>(tokens.size()));
  request.add_raw_input_contents(Bytes(tokens));
  return request;
}

// A message on its whole way to a model's input.
struct Decoded {
  absl::Status From(std::string_view bytes, const Model& model) {
    PlainRequest plain;
    absl::Status status = message.Parse(bytes, InferScanner({}));
    if (status.ok()) status = message.Spell(model, plain);
    return status.ok() ? request.Decode(plain, model) : status;
  }
  const RequestInput& input() const { return request.input(); }
  int32_t priority() const { return request.priority(); }

  InferMessage message;
  DecodedRequest request;
};

absl::Status Decode(const ModelInferRequest& request, const Model& model, Decoded& decoded) {
  return decoded.From(request.SerializeAsString(), model);
}

std::string ErrorOf(const ModelInferRequest& request, const Model& model = Tagger()) {
  Decoded message;
  const absl::Status status = Decode(request, model, message);
  EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

std::string ErrorAfter(const std::function<void(ModelInferRequest&)>& change) {
  ModelInferRequest request = Tokens({1, 2, 3});
  change(request);
  return ErrorOf(request);
}

std::vector<int32_t> DecodedTokens(const ModelInferRequest& request, const Model& model) {
  Decoded message;
  const absl::Status status = Decode(request, model, message);
  EXPECT_TRUE(status.ok()) << status;
  if (!status.ok()) return {};
  const InputTensor* tokens = message.input().Find("TOKENS");
  std::vector<int32_t> values(tokens->bytes.size() / 4);
  std::memcpy(values.data(), tokens->bytes.data(), tokens->bytes.size());
  EXPECT_EQ(tokens->dims, (TensorDims{static_cast<int64_t>(values.size())}));
  return values;
}

TEST(WireCodecTest, RawAndTypedInt32AndInt64TokensAreTheSameTokens) {
  const std::vector<int32_t> expected = {5, 0, 99};
  EXPECT_EQ(DecodedTokens(Tokens(expected), Tagger()), expected);

  ModelInferRequest typed = Tokens(expected);
  typed.clear_raw_input_contents();
  for (const int32_t token : expected)
    typed.mutable_inputs(0)->mutable_contents()->add_int_contents(token);
  EXPECT_EQ(DecodedTokens(typed, Tagger()), expected);

  ModelInferRequest wide = Tokens(expected);
  wide.mutable_inputs(0)->set_datatype("INT64");
  wide.set_raw_input_contents(0, Bytes<int64_t>({5, 0, 99}));
  EXPECT_EQ(DecodedTokens(wide, Tagger()), expected);

  wide.clear_raw_input_contents();
  for (const int32_t token : expected)
    wide.mutable_inputs(0)->mutable_contents()->add_int64_contents(token);
  EXPECT_EQ(DecodedTokens(wide, Tagger()), expected);
}

// Of sequences end to end each has its own, in front of which their number stands.
TEST(WireCodecTest, AnInputThatIsOneASequenceHasADimensionMoreBesideLengths) {
  Model model = Tagger();
  model.signature.inputs.push_back(
      {.name = "LENGTHS", .type = WireType::kInt32, .dims = {-1}, .optional = true});
  model.signature.inputs.push_back({.name = "STATE",
                                    .type = WireType::kFp32,
                                    .dims = {1, 2},
                                    .optional = true,
                                    .one_a_sequence = true});
  const auto error = [&](bool lengths, std::vector<int64_t> shape) {
    ModelInferRequest request = Tokens({1, 2, 3});
    auto* state = request.add_inputs();
    state->set_name("STATE");
    state->set_datatype("FP32");
    size_t elements = 1;
    for (const int64_t dim : shape) {
      state->add_shape(dim);
      elements *= static_cast<size_t>(dim);
    }
    request.add_raw_input_contents(Bytes(std::vector<float>(elements)));
    if (lengths) {
      auto* input = request.add_inputs();
      input->set_name("LENGTHS");
      input->set_datatype("INT32");
      input->add_shape(3);
      request.add_raw_input_contents(Bytes(std::vector<int32_t>{1, 1, 1}));
    }
    return ErrorOf(request, model);
  };
  EXPECT_EQ(error(false, {1, 2}), "");
  EXPECT_EQ(error(true, {3, 1, 2}), "");
  EXPECT_EQ(error(true, {1, 2}),
            "input STATE of model \"tagger\": shape has 2 dimensions, expected 3");
  EXPECT_EQ(error(false, {3, 1, 2}),
            "input STATE of model \"tagger\": shape has 3 dimensions, expected 2");
  EXPECT_EQ(error(true, {3, 2, 2}),
            "input STATE of model \"tagger\": dimension 1 is 2, expected 1");
  ModelInferRequest request = Tokens({1});
  (*request.mutable_parameters())["sequence_id"].set_int64_param(5);
  EXPECT_EQ(ErrorOf(request, model),
            "parameter sequence_id: this model keeps no state between requests");
}

// Else one client would go on with the state of another.
TEST(WireCodecTest, ATextAndANumberAreDifferentSequencesAndALargeNumberIsOneHoweverItIsWritten) {
  Model model = Tagger();
  model.signature.state = {{"INITIAL_H", "FINAL_H", {1, 2}}};
  const auto id_of = [&](const std::function<void(inference::InferParameter&)>& set) {
    ModelInferRequest request = Tokens({1});
    set((*request.mutable_parameters())["sequence_id"]);
    Decoded message;
    const absl::Status status = Decode(request, model, message);
    EXPECT_TRUE(status.ok()) << status;
    const auto& piece = message.request.sequence();
    return piece.has_value() ? piece->id : "none";
  };
  const std::string number = id_of([](auto& id) { id.set_int64_param(7); });
  EXPECT_EQ(number, id_of([](auto& id) { id.set_uint64_param(7); }));
  EXPECT_NE(number, id_of([](auto& id) { id.set_string_param("7"); }));
  EXPECT_NE(number, id_of([](auto& id) { id.set_int64_param(8); }));
  EXPECT_EQ(id_of([](auto& id) { id.set_int64_param(-1); }),
            id_of([](auto& id) { id.set_uint64_param(~uint64_t{0}); }));
  EXPECT_EQ(id_of([](auto& id) { id.set_int64_param(0); }), "none");
  EXPECT_EQ(id_of([](auto& id) { id.set_uint64_param(0); }), "none");
  EXPECT_EQ(id_of([](auto& id) { id.set_string_param(""); }), "none");
}

TEST(WireCodecTest, APieceOfASequenceHasItsStateHere) {
  Model model = Tagger();
  model.signature.inputs.push_back({.name = "INITIAL_H",
                                    .type = WireType::kFp32,
                                    .dims = {1, 2},
                                    .optional = true,
                                    .one_a_sequence = true});
  model.signature.inputs.push_back(
      {.name = "LENGTHS", .type = WireType::kInt32, .dims = {-1}, .optional = true});
  model.signature.state = {{"INITIAL_H", "FINAL_H", {1, 2}}};
  const auto error = [&](const std::function<void(ModelInferRequest&)>& change) {
    ModelInferRequest request = Tokens({1});
    (*request.mutable_parameters())["sequence_id"].set_string_param("call 7");
    change(request);
    return ErrorOf(request, model);
  };
  const auto bring = [](ModelInferRequest& request) {
    auto* state = request.add_inputs();
    state->set_name("INITIAL_H");
    state->set_datatype("FP32");
    for (const int64_t dim : {1, 2}) state->add_shape(dim);
    request.add_raw_input_contents(Bytes(std::vector<float>{1, 2}));
  };
  const auto start = [](ModelInferRequest& request) {
    (*request.mutable_parameters())["sequence_start"].set_bool_param(true);
  };
  EXPECT_EQ(error([](auto&) {}), "");
  EXPECT_EQ(error(start), "");
  EXPECT_EQ(error([&](auto& request) {
              bring(request);
              start(request);
            }),
            "");
  EXPECT_EQ(
      error(bring),
      "input INITIAL_H of model \"tagger\": the state of sequence \"call 7\" is here already; a "
      "client brings one with sequence_start alone");
  EXPECT_EQ(
      error([](auto& request) {
        auto* lengths = request.add_inputs();
        lengths->set_name("LENGTHS");
        lengths->set_datatype("INT32");
        lengths->add_shape(1);
        request.add_raw_input_contents(Bytes(std::vector<int32_t>{1}));
      }),
      "input LENGTHS of model \"tagger\": with parameter sequence_id a message has one sequence");
  EXPECT_EQ(
      error([](auto& request) {
        (*request.mutable_parameters())["sequence_id"].set_string_param(std::string(129, 'a'));
      }),
      "parameter sequence_id has 129 bytes, the most are 128");
}

// P2
TEST(WireCodecTest, AnInputThatMayBeEmptyMayHaveNoRows) {
  Model model = Tagger();
  model.signature.inputs.push_back({.name = "ROWS", .type = WireType::kInt32, .dims = {-1, 2}});
  TensorSpec& rows = model.signature.inputs.back();
  ModelInferRequest request = Tokens({1});
  auto* input = request.add_inputs();
  input->set_name("ROWS");
  input->set_datatype("INT32");
  input->add_shape(0);
  input->add_shape(2);
  request.add_raw_input_contents("");
  EXPECT_EQ(ErrorOf(request, model),
            "input ROWS of model \"tagger\": dimension 0 is 0, the least is 1");
  rows.may_be_empty = true;
  Decoded message;
  EXPECT_TRUE(Decode(request, model, message).ok());
  EXPECT_EQ(message.input().Find("ROWS")->dims, (TensorDims{0, 2}));
  EXPECT_TRUE(message.input().Find("ROWS")->bytes.empty());
  request.mutable_inputs(1)->set_shape(1, 0);
  EXPECT_EQ(ErrorOf(request, model),
            "input ROWS of model \"tagger\": dimension 1 is 0, the least is 1");
  request.mutable_inputs(1)->set_shape(1, 2);
  request.clear_raw_input_contents();
  request.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
  Decoded typed;
  EXPECT_TRUE(Decode(request, model, typed).ok());
}

TEST(WireCodecTest, ANodeWithoutAWordIsToldToSendOne) {
  Model model = Tagger();
  model.signature.inputs.push_back({.name = "PARENT", .type = WireType::kInt32, .dims = {-1}});
  ModelInferRequest request = Tokens({1, -1});
  EXPECT_EQ(ErrorOf(request, model),
            "input TOKENS of model \"tagger\": token 1 is -1, the vocabulary ends at 99");
  auto* parent = request.add_inputs();
  parent->set_name("PARENT");
  parent->set_datatype("INT32");
  parent->add_shape(2);
  request.add_raw_input_contents(Bytes(std::vector<int32_t>{1, -1}));
  EXPECT_EQ(ErrorOf(request, model),
            "input TOKENS of model \"tagger\": token 1 is -1, the vocabulary ends at 99; 0 will "
            "do where no cell reads it");
}

TEST(WireCodecTest, WhatIsNoMessageIsMalformed) {
  const std::string good = Tokens({1, 2, 3}).SerializeAsString();
  std::string groups;
  for (int i = 0; i < 10000; ++i) groups += static_cast<char>(15 << 3 | 3);
  std::string bad_text = good;
  bad_text.replace(bad_text.find("tagger"), 2, "\xff\xfe");
  const std::vector<std::string> malformed = {"\x01\x02\x03\x04garbage\xff",
                                              good.substr(0, good.size() - 1),
                                              std::string("\x2a\x80\x80\x80\x80\x08"),
                                              groups,
                                              bad_text,
                                              std::string("\x0b"),
                                              std::string("\x0c"),
                                              std::string(1, '\0')};
  for (const std::string& bytes : malformed) {
    InferMessage message;
    const absl::Status status = message.Parse(bytes, InferScanner({}));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(status.message()), "malformed ModelInferRequest")
        << testing::PrintToString(bytes.substr(0, 20));
  }
}

// P3
TEST(WireCodecTest, UnknownReorderedAndRepeatedScalarFieldsAreFine) {
  ModelInferRequest tail = Tokens({4, 5});
  tail.clear_model_name();
  ModelInferRequest first, second;
  first.set_model_name("other");
  second.set_model_name("tagger");
  const std::string unknown("\x9a\x06\x03new\xa0\x06\x01\xab\x06\xac\x06", 13);
  Decoded decoded;
  const absl::Status status = decoded.From(
      tail.SerializeAsString() + unknown + first.SerializeAsString() + second.SerializeAsString(),
      Tagger());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(decoded.message.proto().model_name(), "tagger");
}

// V1
TEST(WireCodecTest, NamesAndVersionsAreCheckedBeforeTheyAreUsed) {
  EXPECT_TRUE(CheckModelName("tagger").ok());
  EXPECT_TRUE(CheckModelVersion("").ok());
  EXPECT_TRUE(CheckModelVersion("12").ok());
  EXPECT_TRUE(CheckModelName("\u00fc m").ok());
  for (const char* name : {"", "../x", "a/b", "a\\b", "a\nb", "a\x7f", "a\xff", "\xc3"})
    EXPECT_FALSE(CheckModelName(name).ok()) << name;
  EXPECT_TRUE(CheckModelName(std::string(256, 'x')).ok());
  EXPECT_FALSE(CheckModelName(std::string(257, 'x')).ok());
  const absl::Status longest = CheckModelName(std::string(1 << 20, 'x'));
  EXPECT_EQ(longest.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_LT(longest.message().size(), 200u);
  for (const char* version : {"abc", "-1", "007", "0", "1.0", "99999999999999999999", " 1"}) {
    EXPECT_EQ(CheckModelVersion(version).code(), absl::StatusCode::kInvalidArgument) << version;
  }
}

// V3
TEST(WireCodecTest, InputsMissingUnexpectedTwiceOrTooMany) {
  Model model = Tagger();
  model.signature.inputs[0].optional = false;
  ModelInferRequest none;
  EXPECT_EQ(ErrorOf(none, model), "input TOKENS of model \"tagger\" is missing");
  EXPECT_EQ(ErrorAfter([](auto& r) { r.mutable_inputs(0)->set_name("tokens"); }),
            "input \"tokens\" is none of model \"tagger\"'s inputs (TOKENS, X, TEXT)");
  EXPECT_EQ(ErrorAfter([](auto& r) {
              *r.add_inputs() = r.inputs(0);
              r.add_raw_input_contents(r.raw_input_contents(0));
            }),
            "input TOKENS of model \"tagger\" is given twice");
  EXPECT_EQ(ErrorAfter([](auto& r) {
              for (int i = 0; i < 100000; ++i) r.add_inputs();
            }),
            "the request has 65 inputs or more, the most is 64");
}

// V4
TEST(WireCodecTest, Datatypes) {
  EXPECT_EQ(ErrorAfter([](auto& r) { r.mutable_inputs(0)->set_datatype("FP32"); }),
            "input TOKENS of model \"tagger\": datatype is FP32, expected INT32");
  EXPECT_EQ(ErrorAfter([](auto& r) { r.mutable_inputs(0)->set_datatype("COMPLEX"); }),
            "input TOKENS of model \"tagger\": datatype \"COMPLEX\" does not exist");
  EXPECT_EQ(ErrorAfter([](auto& r) { r.mutable_inputs(0)->set_datatype("int32"); }),
            "input TOKENS of model \"tagger\": datatype \"int32\" does not exist");
}

// V5
TEST(WireCodecTest, Dimensions) {
  EXPECT_EQ(ErrorAfter([](auto& r) { r.mutable_inputs(0)->add_shape(1); }),
            "input TOKENS of model \"tagger\": shape has 2 dimensions, expected 1");
  EXPECT_EQ(ErrorAfter([](auto& r) { r.mutable_inputs(0)->set_shape(0, -3); }),
            "input TOKENS of model \"tagger\": dimension 0 is -3, the least is 1");
  EXPECT_EQ(ErrorAfter([](auto& r) { r.mutable_inputs(0)->set_shape(0, 0); }),
            "input TOKENS of model \"tagger\": dimension 0 is 0, the least is 1");
  EXPECT_EQ(ErrorOf(Tokens(std::vector<int32_t>(51, 1))),
            "input TOKENS of model \"tagger\": dimension 0 is 51, the longest sequence is 50");
  EXPECT_EQ(ErrorAfter([](auto& r) {
              r.mutable_inputs(0)->set_name("X");
              r.mutable_inputs(0)->set_datatype("FP32");
              r.mutable_inputs(0)->add_shape(5);
            }),
            "input X of model \"tagger\": dimension 1 is 5, expected 4");
}

// V6
TEST(WireCodecTest, ProductsThatOverflowAndTooManyDimensionsAllocateNothing) {
  Model model = Tagger();
  model.signature.inputs[1].dims = {-1, -1};
  model.signature.max_sequence_length = 0;
  for (const auto& [a, b] : std::vector<std::pair<int64_t, int64_t>>{
           {int64_t{1} << 32, int64_t{1} << 32}, {int64_t{1} << 31, int64_t{1} << 31}}) {
    ModelInferRequest request = Tokens({1});
    request.mutable_inputs(0)->set_name("X");
    request.mutable_inputs(0)->set_datatype("FP32");
    request.mutable_inputs(0)->set_shape(0, a);
    request.mutable_inputs(0)->add_shape(b);
    EXPECT_EQ(
        ErrorOf(request, model),
        "input X of model \"tagger\": the product of its dimensions does not fit into 60 bits");
  }
  EXPECT_EQ(ErrorAfter([](auto& r) {
              for (int i = 0; i < 100000; ++i) r.mutable_inputs(0)->add_shape(1);
            }),
            "the request has 100001 dimensions in input 0 or more, the most is 8");
}

// V7
TEST(WireCodecTest, RawBytesThatDoNotFitTheShape) {
  for (const size_t size : {size_t{0}, size_t{8}, size_t{11}, size_t{13}, size_t{16}}) {
    EXPECT_EQ(ErrorAfter([&](auto& r) { r.set_raw_input_contents(0, std::string(size, '\0')); }),
              "input TOKENS of model \"tagger\": raw contents have " + std::to_string(size) +
                  " bytes, its shape and datatype INT32 need 12");
  }
}

// V8
TEST(WireCodecTest, RawAndTypedContentsDoNotMixAndMustMatch) {
  EXPECT_EQ(ErrorAfter([](auto& r) { r.add_raw_input_contents("abcd"); }),
            "the request has 1 inputs, but 2 raw_input_contents");
  EXPECT_EQ(
      ErrorAfter([](auto& r) { r.mutable_inputs(0)->mutable_contents()->add_int_contents(1); }),
      "input \"TOKENS\" has typed contents, but the request has raw_input_contents");
  const auto typed = [](const std::function<void(inference::InferTensorContents&)>& fill) {
    return ErrorAfter([&](auto& r) {
      r.clear_raw_input_contents();
      fill(*r.mutable_inputs(0)->mutable_contents());
    });
  };
  EXPECT_EQ(typed([](auto& c) { c.add_fp32_contents(1); }),
            "input TOKENS of model \"tagger\": datatype INT32 goes into int_contents, not into "
            "fp32_contents");
  EXPECT_EQ(typed([](auto& c) { c.add_int_contents(300); }),
            "input TOKENS of model \"tagger\": int_contents has 1 values, its shape needs 3");
  EXPECT_EQ(ErrorAfter([](auto& r) { r.clear_raw_input_contents(); }),
            "input TOKENS of model \"tagger\": no data, neither raw_input_contents nor contents");
  EXPECT_EQ(ErrorAfter([](auto& r) {
              r.mutable_inputs(0)->set_datatype("INT8");
              r.clear_raw_input_contents();
              r.mutable_inputs(0)->mutable_contents()->add_int_contents(300);
            }),
            "input TOKENS of model \"tagger\": datatype is INT8, expected INT32");
}

// V9
TEST(WireCodecTest, BytesFraming) {
  const auto text = [](const std::string& raw, int64_t elements) {
    return ErrorAfter([&](auto& r) {
      r.mutable_inputs(0)->set_name("TEXT");
      r.mutable_inputs(0)->set_datatype("BYTES");
      r.mutable_inputs(0)->set_shape(0, elements);
      r.set_raw_input_contents(0, raw);
    });
  };
  const std::string two("\3\0\0\0a\0b\0\0\0\0", 11);
  EXPECT_EQ(text(two, 2), "");
  EXPECT_EQ(text(two, 3), "input TEXT of model \"tagger\": raw contents end before element 2 of 3");
  EXPECT_EQ(text(two, 1), "input TEXT of model \"tagger\": 4 bytes follow the last of 1 elements");
  EXPECT_EQ(text(std::string("\4\0\0\0abc", 7), 1),
            "input TEXT of model \"tagger\": element 0 is 4 bytes long, 3 are left");
  EXPECT_EQ(text("\xff\xff\xff\xff"
                 "abc",
                 1),
            "input TEXT of model \"tagger\": element 0 is 4294967295 bytes long, 3 are left");

  ModelInferRequest typed = Tokens({1, 2});
  typed.clear_raw_input_contents();
  typed.mutable_inputs(0)->set_name("TEXT");
  typed.mutable_inputs(0)->set_datatype("BYTES");
  typed.mutable_inputs(0)->mutable_contents()->add_bytes_contents(std::string("a\0b", 3));
  typed.mutable_inputs(0)->mutable_contents()->add_bytes_contents("");
  Decoded message;
  ASSERT_TRUE(Decode(typed, Tagger(), message).ok());
  const InputTensor* tensor = message.input().Find("TEXT");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(tensor->bytes.data()), tensor->bytes.size()),
            two);
}

// V10
TEST(WireCodecTest, WordsBeyondTheVocabularyAreRejectedOrReplaced) {
  EXPECT_EQ(ErrorOf(Tokens({1, -1})),
            "input TOKENS of model \"tagger\": token 1 is -1, the vocabulary ends at 99");
  EXPECT_EQ(ErrorOf(Tokens({100})),
            "input TOKENS of model \"tagger\": token 0 is 100, the vocabulary ends at 99");
  EXPECT_EQ(ErrorOf(Tokens({std::numeric_limits<int32_t>::min()})),
            "input TOKENS of model \"tagger\": token 0 is -2147483648, the vocabulary ends at 99");
  ModelInferRequest wide = Tokens({1, 2});
  wide.mutable_inputs(0)->set_datatype("INT64");
  wide.set_raw_input_contents(0, Bytes<int64_t>({3, (int64_t{1} << 32) + 5}));
  EXPECT_EQ(ErrorOf(wide),
            "input TOKENS of model \"tagger\": token 1 is 4294967301, the vocabulary ends at 99");

  Model model = Tagger();
  model.signature.out_of_vocabulary = OutOfVocabulary::kUnknown;
  EXPECT_EQ(DecodedTokens(Tokens({-1, 5, 100}), model), (std::vector<int32_t>{7, 5, 7}));
  EXPECT_EQ(DecodedTokens(wide, model), (std::vector<int32_t>{3, 7}));
}

// V15
TEST(WireCodecTest, RequestedOutputs) {
  EXPECT_EQ(ErrorAfter([](auto& r) { r.add_outputs()->set_name("FINAL_H"); }), "");
  EXPECT_EQ(ErrorAfter([](auto& r) { r.add_outputs()->set_name("FINAL_X"); }),
            "output \"FINAL_X\" is none of model \"tagger\"'s outputs (OUTPUT, FINAL_H)");
  EXPECT_EQ(ErrorAfter([](auto& r) {
              r.add_outputs()->set_name("OUTPUT");
              r.add_outputs()->set_name("OUTPUT");
            }),
            "output \"OUTPUT\" is requested twice");
  EXPECT_EQ(ErrorAfter([](auto& r) {
              for (int i = 0; i < 1000000; ++i) r.add_outputs();
            }),
            "the request has 65 requested outputs or more, the most is 64");
}

// Of Triton's, what nobody here serves; and what there are too many of.
TEST(WireCodecTest, ParametersOfInputsAndOutputs) {
  const auto asks = [](auto* parameters, const std::string& key) {
    (*parameters->mutable_parameters())[key].set_string_param("x");
  };
  for (const std::string key : {"classification", "shared_memory_region"}) {
    EXPECT_EQ(ErrorAfter([&](auto& r) {
                r.add_outputs()->set_name("OUTPUT");
                asks(r.mutable_outputs(0), key);
              }),
              "output OUTPUT: parameter " + key + " is not supported");
  }
  EXPECT_EQ(ErrorAfter([&](auto& r) { asks(r.mutable_inputs(0), "shared_memory_region"); }),
            "input TOKENS of model \"tagger\": parameter shared_memory_region is not supported");
  EXPECT_EQ(ErrorAfter([&](auto& r) { asks(r.mutable_inputs(0), "binary_data_size"); }), "");
  const auto many = [&](auto* of) {
    for (int i = 0; i < 65; ++i) asks(of, std::to_string(i));
  };
  EXPECT_EQ(ErrorAfter([&](auto& r) { many(r.mutable_inputs(0)); }),
            "the request has 65 parameters of one input or more, the most is 64");
  EXPECT_EQ(ErrorAfter([&](auto& r) { many(r.add_outputs()); }),
            "the request has 65 parameters of one output or more, the most is 64");
  EXPECT_EQ(ErrorAfter([](auto& r) {
              while (r.raw_input_contents_size() < 65) r.add_raw_input_contents();
            }),
            "the request has 65 raw_input_contents or more, the most is 64");
}

// V16
TEST(WireCodecTest, Parameters) {
  const auto with = [](const char* key,
                       const std::function<void(inference::InferParameter&)>& set) {
    return ErrorAfter([&](auto& r) { set((*r.mutable_parameters())[key]); });
  };
  const auto set_bool = [](auto& p) { p.set_bool_param(true); };
  EXPECT_EQ(with("triton_enable_empty_final_response", set_bool), "");
  EXPECT_EQ(with("my_own", set_bool), "");
  EXPECT_EQ(with("priority", [](auto& p) { p.set_uint64_param(1); }), "");
  EXPECT_EQ(with("timeout", set_bool),
            "parameter timeout has the wrong type: expected int64_param");
  EXPECT_EQ(with("timeout", [](auto& p) { p.set_int64_param(-1); }),
            "parameter timeout is -1 microseconds, the least is 0");
  EXPECT_EQ(with("priority", [](auto& p) { p.set_int64_param(-1); }),
            "parameter priority is -1, the least is 0");
  EXPECT_EQ(with("triton_unknown", set_bool),
            "parameter \"triton_unknown\" is reserved and unknown");
  EXPECT_EQ(with("sequence_start", set_bool),
            "parameter sequence_start is set without a sequence_id");
  EXPECT_EQ(with("sequence_id", [](auto& p) { p.set_int64_param(5); }),
            "parameter sequence_id: this model keeps no state between requests");
  EXPECT_EQ(with("sequence_id", [](auto& p) { p.set_int64_param(0); }), "");
  EXPECT_EQ(ErrorAfter([](auto& r) {
              for (int i = 0; i < 100000; ++i)
                (*r.mutable_parameters())[std::to_string(i)].set_bool_param(true);
            }),
            "the request has 65 parameters or more, the most is 64");
}

TEST(WireCodecTest, ThePriorityIsALevelOfTheModelOrZero) {
  Model model = Tagger();
  const auto set = [](uint64_t level) {
    ModelInferRequest request = Tokens({1});
    (*request.mutable_parameters())["priority"].set_uint64_param(level);
    return request;
  };
  EXPECT_EQ(ErrorOf(set(2), model), "parameter priority is 2, allowed are 0 (default) to 1");
  model.priority_levels = 3;
  for (const uint64_t level : {0, 1, 3}) {
    Decoded message;
    ASSERT_TRUE(Decode(set(level), model, message).ok());
    EXPECT_EQ(message.priority(), static_cast<int32_t>(level));
  }
  ModelInferRequest as_signed = Tokens({1});
  (*as_signed.mutable_parameters())["priority"].set_int64_param(2);
  Decoded message;
  ASSERT_TRUE(Decode(as_signed, model, message).ok());
  EXPECT_EQ(message.priority(), 2);
  EXPECT_EQ(ErrorOf(set(4), model), "parameter priority is 4, allowed are 0 (default) to 3");
  EXPECT_EQ(ErrorOf(set(UINT64_MAX), model),
            "parameter priority is 18446744073709551615, allowed are 0 (default) to 3");
}

TEST(WireCodecTest, TheTimeoutParameterIsTakenInMicroseconds) {
  ModelInferRequest request = Tokens({1});
  (*request.mutable_parameters())["timeout"].set_int64_param(2500);
  Decoded message;
  ASSERT_TRUE(Decode(request, Tagger(), message).ok());
  EXPECT_EQ(message.request.timeout_us(), 2500);
}

// V17, serving.md 2.6 rules 7 and 9
TEST(WireCodecTest, TheAnswerEchoesTheIdNamesTheVersionAndIsRaw) {
  std::string id = "%n\x1b[31m\r\n\"";
  id.resize(1 << 20, 'x');
  std::vector<float> values = {1.5f, -2.25f};
  std::vector<ReturnedTensor> tensors(2);
  tensors[0] = {"OUTPUT", WireType::kFp32, {2}, {reinterpret_cast<std::byte*>(values.data()), 8}};
  tensors[1] = {
      "FINAL_H", WireType::kFp32, {1, 2}, {reinterpret_cast<std::byte*>(values.data()), 8}};
  inference::ModelInferResponse answer;
  ASSERT_TRUE(answer.ParseFromString(EncodeInferResponse(Tagger(), id, tensors)));
  EXPECT_EQ(answer.id(), id);
  EXPECT_EQ(answer.model_name(), "tagger");
  EXPECT_EQ(answer.model_version(), "3");
  ASSERT_EQ(answer.outputs_size(), 2);
  EXPECT_EQ(answer.outputs(1).name(), "FINAL_H");
  EXPECT_EQ(answer.outputs(1).datatype(), "FP32");
  EXPECT_EQ(answer.outputs(1).shape_size(), 2);
  EXPECT_FALSE(answer.outputs(0).has_contents());
  ASSERT_EQ(answer.raw_output_contents_size(), 2);
  EXPECT_EQ(answer.raw_output_contents(0), Bytes(values));
}

// Of random answers, byte by byte: lengths around every size of a varint, no text, no dimension, no value.
TEST(WireCodecTest, AnAnswerIsWrittenAsProtobufWritesIt) {
  std::mt19937 random(5);
  const auto up_to = [&](size_t most) { return random() % (most + 1); };
  const auto text = [&] {
    const std::array<size_t, 6> lengths = {0, 1, 127, 128, 300, 20000};
    return std::string(lengths[up_to(5)], static_cast<char>('a' + up_to(25)));
  };
  for (int i = 0; i < 300; ++i) {
    Model model;
    model.name = text();
    model.version = static_cast<int64_t>(uint64_t{random()} << up_to(31));
    const std::string id = text();
    std::vector<ReturnedTensor> tensors(up_to(3));
    std::vector<std::vector<float>> values;
    inference::ModelInferResponse expected;
    expected.set_model_name(model.name);
    expected.set_model_version(std::to_string(model.version));
    expected.set_id(id);
    for (ReturnedTensor& tensor : tensors) {
      tensor.name = text();
      tensor.type = up_to(1) == 0 ? WireType::kFp32 : WireType::kInt32;
      for (size_t d = up_to(6); d > 0; --d) {
        tensor.dims.push_back(static_cast<int64_t>(uint64_t{random()} >> up_to(31)));
      }
      std::vector<float>& kept = values.emplace_back(up_to(80));
      for (float& value : kept) value = static_cast<float>(random());
      tensor.bytes = absl::MakeSpan(reinterpret_cast<std::byte*>(kept.data()), kept.size() * 4);
      auto* output = expected.add_outputs();
      output->set_name(tensor.name);
      output->set_datatype(Name(tensor.type));
      for (const int64_t dim : tensor.dims) output->add_shape(dim);
      expected.add_raw_output_contents(Bytes(kept));
    }
    ASSERT_EQ(EncodeInferResponse(model, id, tensors), expected.SerializeAsString()) << i;
  }
}

TEST(WireCodecTest, NumbersWithNamesTravelAsTheirNames) {
  const auto names = Vocabulary::Create("O\nI-PER\nI-LOC\n");
  ASSERT_TRUE(names.ok()) << names.status();
  std::vector<int32_t> ids = {1, 0, 2};
  std::vector<float> values = {0.5f};
  std::vector<ReturnedTensor> tensors(2);
  tensors[0] = {"LABELS",
                WireType::kInt32,
                {3},
                absl::MakeSpan(reinterpret_cast<std::byte*>(ids.data()), 12),
                names->get()};
  tensors[1] = {"OUTPUT", WireType::kFp32, {1}, {reinterpret_cast<std::byte*>(values.data()), 4}};
  inference::ModelInferResponse answer;
  ASSERT_TRUE(answer.ParseFromString(EncodeInferResponse(Tagger(), "", tensors)));
  ASSERT_EQ(answer.outputs_size(), 2);
  EXPECT_EQ(answer.outputs(0).datatype(), "BYTES");
  EXPECT_EQ(answer.outputs(0).shape(0), 3);
  EXPECT_EQ(answer.outputs(1).datatype(), "FP32");
  ASSERT_EQ(answer.raw_output_contents_size(), 2);
  EXPECT_EQ(answer.raw_output_contents(0), std::string("\5\0\0\0I-PER\1\0\0\0O\5\0\0\0I-LOC", 23));
  EXPECT_EQ(answer.raw_output_contents(1), Bytes(values));

  for (const int32_t beyond : {-1, 3, 2'000'000'000}) {
    ids = {0, beyond, 0};
    std::string named;
    EXPECT_EQ(RawContents(tensors[0], named), std::string("\1\0\0\0O\0\0\0\0\1\0\0\0O", 14))
        << beyond;
  }
}

TEST(WireCodecTest, TextOfAClientIsQuotedSafeAndShort) {
  EXPECT_EQ(Quoted("a\x1b[31m\n\"\xc3\xa9"), "\"a\\033[31m\\n\\\"\\303\\251\"");
  EXPECT_EQ(Quoted(std::string(65, 'x')), '"' + std::string(64, 'x') + "...\"");
  EXPECT_EQ(Quoted(std::string(64, 'x')), '"' + std::string(64, 'x') + '"');
}

// A model that decodes takes its words from SOURCE, and numbers beside it.
TEST(WireCodecTest, ParametersReachModelsThatNameThemAndWordsAreWordsUnderAnyName) {
  Model model = Tagger();
  model.signature.inputs = {
      {.name = "SOURCE", .type = WireType::kInt32, .dims = {-1}, .words = true},
      {.name = "COUNTS", .type = WireType::kInt32, .dims = {-1}, .optional = true}};
  model.signature.parameters = {"max_decode_steps", "beams"};
  ModelInferRequest request = Tokens({1, 2});
  request.mutable_inputs(0)->set_name("SOURCE");
  const auto parameter = [&](const char* key) -> inference::InferParameter& {
    return (*request.mutable_parameters())[key];
  };
  parameter("max_decode_steps").set_int64_param(-5);  // what it means is the unfolder's
  parameter("beams").set_int64_param(4);
  parameter("somebody's").set_string_param("ignored");
  {
    Decoded message;
    ASSERT_TRUE(Decode(request, model, message).ok());
    EXPECT_EQ(message.input().FindParameter("max_decode_steps"), -5);
    EXPECT_EQ(message.input().FindParameter("beams"), 4);
    EXPECT_EQ(message.input().parameters.size(), 2u);
  }
  parameter("beams").set_string_param("4");
  EXPECT_EQ(ErrorOf(request, model), "parameter beams has the wrong type: expected int64_param");
  request.clear_parameters();
  parameter("decode_steps").set_int64_param(4);
  EXPECT_EQ(ErrorOf(request, model), "parameter decode_steps: model \"tagger\" decodes nothing");

  request = Tokens({1, 100});
  request.mutable_inputs(0)->set_name("SOURCE");
  EXPECT_EQ(ErrorOf(request, model),
            "input SOURCE of model \"tagger\": token 1 is 100, the vocabulary ends at 99");
  model.signature.out_of_vocabulary = OutOfVocabulary::kUnknown;
  Decoded message;
  ASSERT_TRUE(Decode(request, model, message).ok());
  const auto* words = reinterpret_cast<const int32_t*>(message.input().tensors[0].bytes.data());
  EXPECT_EQ(words[1], 7);
  request.mutable_inputs(0)->set_name("COUNTS");
  EXPECT_EQ(ErrorOf(request, model), "input SOURCE of model \"tagger\" is missing")
      << "a number that is no word may be any";
}

}  // namespace
}  // namespace cellbatch
