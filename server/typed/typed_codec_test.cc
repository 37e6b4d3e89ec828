#include "server/typed/typed_codec.h"

#include <cstring>
#include <functional>

#include "cells/vocabulary.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/test_model.h"

namespace cellbatch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

template <typename... Values>
void Append(google::protobuf::RepeatedField<int32_t>& list, Values... values) {
  (list.Add(values), ...);
}

// The tensors that a typed input stands for.
struct Tensors {
  explicit Tensors(const v1::Input& the_input, const Signature& signature = {}) : input(the_input) {
    status = ToTensors(input, signature, made, request);
  }
  const PlainTensor* Find(std::string_view name) const {
    for (const PlainTensor& tensor : request.inputs) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  std::vector<int32_t> Int32s(std::string_view name) const {
    const PlainTensor* tensor = Find(name);
    if (tensor == nullptr || tensor->datatype != "INT32") return {-99};
    std::vector<int32_t> values(tensor->contents.size() / sizeof(int32_t));
    std::memcpy(values.data(), tensor->contents.data(), tensor->contents.size());
    return values;
  }
  std::string Raw(std::string_view name) const {
    const absl::Span<const std::byte> contents = Find(name)->contents;
    return {reinterpret_cast<const char*>(contents.data()), contents.size()};
  }
  std::vector<int64_t> Shape(std::string_view name) const {
    const PlainTensor* tensor = Find(name);
    if (tensor == nullptr) return {};
    return {tensor->shape.begin(), tensor->shape.end()};
  }
  const v1::Input input;  // what the request borrows from
  MadeContents made;
  absl::Status status;
  PlainRequest request;
};

TEST(TypedCodecTest, ASequenceIsItsTokensOrWordsOrVectors) {
  v1::Input input;
  Append(*input.mutable_sequence()->mutable_tokens(), 3, 1, 2);
  Append(*input.mutable_sequence()->mutable_character_ids(), 7, 8);
  Append(*input.mutable_sequence()->mutable_character_counts(), 0, 2, 0);
  const Tensors tokens(input);
  ASSERT_TRUE(tokens.status.ok());
  EXPECT_THAT(tokens.Int32s("TOKENS"), ElementsAre(3, 1, 2));
  EXPECT_THAT(tokens.Shape("TOKENS"), ElementsAre(3));
  EXPECT_THAT(tokens.Int32s("CHAR_IDS"), ElementsAre(7, 8));
  EXPECT_THAT(tokens.Int32s("CHAR_LENGTHS"), ElementsAre(0, 2, 0));

  Signature translation;
  translation.inputs = {{"SOURCE", WireType::kInt32, {-1}}};
  EXPECT_THAT(Tensors(input, translation).Int32s("SOURCE"), ElementsAre(3, 1, 2));

  v1::Input words;
  words.mutable_sequence()->add_words("a");
  words.mutable_sequence()->add_words("b\0c");
  const Tensors texts(words);
  EXPECT_THAT(texts.Shape("WORDS_TEXT"), ElementsAre(2));
  EXPECT_EQ(texts.Find("WORDS_TEXT")->datatype, "BYTES");
  EXPECT_EQ(texts.Raw("WORDS_TEXT"), std::string("\1\0\0\0a\1\0\0\0b", 10));

  v1::Input vectors;
  for (int i = 0; i < 6; ++i) vectors.mutable_sequence()->add_vectors(static_cast<float>(i));
  vectors.mutable_sequence()->set_width(2);
  EXPECT_THAT(Tensors(vectors).Shape("X"), ElementsAre(3, 2));
  vectors.mutable_sequence()->set_width(4);
  EXPECT_EQ(Text(Tensors(vectors).status), "sequence: vectors: 6 numbers are no rows of width 4");
  vectors.mutable_sequence()->set_width(0);
  EXPECT_THAT(Text(Tensors(vectors).status), HasSubstr("width 0"));
  vectors.mutable_sequence()->add_tokens(1);
  EXPECT_EQ(Text(Tensors(vectors).status),
            "sequence: more than one of `tokens`, `words` and `vectors`");
  EXPECT_EQ(Text(Tensors(v1::Input()).status),
            "an input is none of sequence, tree, lattice, graph, tensors");
  v1::Input none;
  none.mutable_sequence();
  EXPECT_THAT(Text(Tensors(none).status), HasSubstr("none of `tokens`"));
}

TEST(TypedCodecTest, ATreeIsSaidInOneOfThreeWays) {
  v1::Input binary;
  Append(*binary.mutable_tree()->mutable_tokens(), 5, 6, 7);
  Append(*binary.mutable_tree()->mutable_binary()->mutable_left(), 1, 0);
  Append(*binary.mutable_tree()->mutable_binary()->mutable_right(), 2, 3);
  Append(*binary.mutable_tree()->mutable_internal_types(), 0, 1);
  const Tensors tensors(binary);
  ASSERT_TRUE(tensors.status.ok()) << tensors.status;
  EXPECT_THAT(tensors.Int32s("TOKENS"), ElementsAre(5, 6, 7));
  EXPECT_THAT(tensors.Int32s("CHILDREN"), ElementsAre(1, 2, 0, 3));
  EXPECT_THAT(tensors.Shape("CHILDREN"), ElementsAre(2, 2));
  EXPECT_THAT(tensors.Int32s("INTERNAL_TYPES"), ElementsAre(0, 1));

  Append(*binary.mutable_tree()->mutable_binary()->mutable_right(), 4);
  EXPECT_EQ(Text(Tensors(binary).status), "tree: binary: `left` has 2 entries, `right` has 3");
  Append(*binary.mutable_tree()->mutable_parents(), -1);
  EXPECT_THAT(Text(Tensors(binary).status), HasSubstr("one says what it is"));

  v1::Input parents;
  Append(*parents.mutable_tree()->mutable_tokens(), 5, 6);
  Append(*parents.mutable_tree()->mutable_parents(), 1, -1);
  EXPECT_THAT(Tensors(parents).Int32s("PARENT"), ElementsAre(1, -1));
  EXPECT_EQ(Tensors(parents).Find("CHILDREN"), nullptr);

  v1::Input leaf;
  Append(*leaf.mutable_tree()->mutable_tokens(), 5);
  leaf.mutable_tree()->mutable_binary();
  EXPECT_EQ(Tensors(leaf).request.inputs.size(), 1u) << "no children are no tensor";

  v1::Input text;
  text.mutable_tree()->set_bracketed("(3 (2 a) (4 b))");
  const Tensors bracketed(text);
  EXPECT_EQ(bracketed.Raw("TREE"), std::string("\x0f\0\0\0", 4) + "(3 (2 a) (4 b))");
  EXPECT_EQ(bracketed.request.inputs.size(), 1u);
  text.mutable_tree()->add_tokens(1);
  EXPECT_EQ(Text(Tensors(text).status), "tree: `tokens` beside `bracketed`");
}

TEST(TypedCodecTest, LatticesAndGraphsAreRowsOfListsSideBySide) {
  v1::Input input;
  v1::Lattice& lattice = *input.mutable_lattice();
  Append(*lattice.mutable_characters(), 1, 2, 3);
  Append(*lattice.mutable_words()->mutable_start(), 0, 1);
  Append(*lattice.mutable_words()->mutable_end(), 2, 3);
  Append(*lattice.mutable_words()->mutable_word(), 40, 41);
  EXPECT_THAT(Tensors(input).Int32s("WORDS"), ElementsAre(0, 2, 40, 1, 3, 41));
  EXPECT_THAT(Tensors(input).Shape("WORDS"), ElementsAre(2, 3));
  lattice.mutable_words()->add_word(1);
  EXPECT_EQ(Text(Tensors(input).status), "lattice: words: `start` has 2 entries, `word` has 3");

  v1::Graph& graph = *input.mutable_graph();
  Append(*graph.mutable_node_types(), 0, 0, 1);
  Append(*graph.mutable_edges()->mutable_from(), 0, 1);
  Append(*graph.mutable_edges()->mutable_to(), 2, 2);
  Append(*graph.mutable_edges()->mutable_input(), 0, 1);
  v1::NodeRows& rows = *graph.add_rows();
  rows.set_name("leaf.x");
  rows.set_width(2);
  for (int i = 0; i < 4; ++i) rows.add_floats(1);
  v1::NodeRows& ids = *graph.add_rows();
  ids.set_name("leaf.token");
  Append(*ids.mutable_integers(), 8, 9);
  const Tensors tensors(input);
  ASSERT_TRUE(tensors.status.ok()) << tensors.status;
  EXPECT_THAT(tensors.Int32s("EDGES"), ElementsAre(0, 2, 0, 1, 2, 1));
  EXPECT_THAT(tensors.Shape("leaf.x"), ElementsAre(2, 2));
  EXPECT_THAT(tensors.Int32s("leaf.token"), ElementsAre(8, 9));
  rows.set_width(3);
  EXPECT_EQ(Text(Tensors(input).status),
            "graph: rows of \"leaf.x\": 4 numbers are no rows of width 3");
  rows.set_width(2);
  ids.set_width(2);
  const Tensors pairs(input);
  EXPECT_THAT(pairs.Shape("leaf.token"), ElementsAre(1, 2));
  EXPECT_THAT(pairs.Int32s("leaf.token"), ElementsAre(8, 9));
  ids.set_width(3);
  EXPECT_EQ(Text(Tensors(input).status),
            "graph: rows of \"leaf.token\": 2 integers are no rows of width 3");
  ids.add_floats(1);
  EXPECT_THAT(Text(Tensors(input).status), HasSubstr("both `floats` and `integers`"));
}

// A type of which the graph has no node: nothing in its rows says what they would be of.
TEST(TypedCodecTest, NoRowsAreOfTheDatatypeThatTheModelTakes) {
  Signature signature;
  signature.inputs = {{.name = "leaf.token", .type = WireType::kInt32, .dims = {-1}},
                      {.name = "leaf.x", .type = WireType::kFp32, .dims = {-1, 2}}};
  v1::Input input;
  Append(*input.mutable_graph()->mutable_node_types(), 1);
  input.mutable_graph()->add_rows()->set_name("leaf.token");
  v1::NodeRows& vectors = *input.mutable_graph()->add_rows();
  vectors.set_name("leaf.x");
  vectors.set_width(2);
  const Tensors tensors(input, signature);
  ASSERT_TRUE(tensors.status.ok()) << tensors.status;
  EXPECT_EQ(tensors.Find("leaf.token")->datatype, "INT32");
  EXPECT_THAT(tensors.Shape("leaf.token"), ElementsAre(0));
  EXPECT_EQ(tensors.Find("leaf.x")->datatype, "FP32");
  EXPECT_THAT(tensors.Shape("leaf.x"), ElementsAre(0, 2));
}

TEST(TypedCodecTest, RawTensorsAreTakenAsTheyAre) {
  v1::Input input;
  v1::RawTensor& tensor = *input.mutable_tensors()->add_tensors();
  tensor.set_name("ANY");
  tensor.set_datatype("INT32");
  tensor.add_shape(1);
  tensor.set_contents("\x01\x02\x03\x04");
  const Tensors tensors(input);
  ASSERT_EQ(tensors.request.inputs.size(), 1u);
  EXPECT_EQ(tensors.request.inputs[0].name, "ANY");
  EXPECT_EQ(tensors.Raw("ANY"), "\x01\x02\x03\x04");
}

TEST(TypedCodecTest, BytesThatAreNoMessageOrTooMuchAreRefusedBeforeTheyAreParsed) {
  v1::InferRequest request;
  EXPECT_EQ(Text(TypedInferScanner({}).Parse("\x01garbage", request)), "malformed InferRequest");
  v1::DecodeRequest decode;
  EXPECT_EQ(Text(DecodeScanner({}).Parse("\x1a\x7f", decode)), "malformed DecodeRequest");
  const MessageScanner scanner =
      TypedInferScanner({.max_elements = 100, .max_bytes_elements = 5, .max_messages = 10});
  const auto error = [&](const v1::InferRequest& big) {
    v1::InferRequest parsed;
    return Text(scanner.Parse(big.SerializeAsString(), parsed));
  };
  v1::InferRequest many;
  for (int i = 0; i < 10; ++i) many.add_inputs();
  EXPECT_EQ(error(many), "");
  many.mutable_inputs(3)->mutable_tree();
  EXPECT_EQ(error(many),
            "the request has 11 messages or more, the most is 10 (--grpc-max-submessages)");
  v1::InferRequest numbers;
  for (int i = 0; i < 101; ++i) numbers.mutable_inputs()->Add()->mutable_sequence()->add_vectors(1);
  v1::InferRequest packed;
  for (int i = 0; i < 101; ++i) {
    (packed.inputs_size() == 0 ? packed.add_inputs() : packed.mutable_inputs(0))
        ->mutable_sequence()
        ->add_tokens(i);
  }
  EXPECT_EQ(error(packed),
            "the request has 101 numbers or more, the most is 100 (--grpc-max-numbers)");
  v1::InferRequest texts;
  for (int i = 0; i < 6; ++i) texts.add_outputs("x");
  EXPECT_EQ(error(texts), "the request has 6 texts or more, the most is 5 (--grpc-max-texts)");

  const MessageScanner bounded =
      TypedInferScanner({.max_inputs = 2, .max_outputs = 3, .max_parameters = 4, .max_dims = 5});
  const auto beyond = [&](int times, const std::function<void(v1::InferRequest&, int)>& add) {
    v1::InferRequest big, parsed;
    for (int i = 0; i < times - 1; ++i) add(big, i);
    EXPECT_EQ(Text(bounded.Parse(big.SerializeAsString(), parsed)), "");
    add(big, times - 1);
    return Text(bounded.Parse(big.SerializeAsString(), parsed));
  };
  const auto raw = [](v1::InferRequest& r) {
    return (r.inputs_size() == 0 ? r.add_inputs() : r.mutable_inputs(0))->mutable_tensors();
  };
  EXPECT_EQ(beyond(3, [&](auto& r, int) { raw(r)->add_tensors(); }),
            "the request has 3 raw tensors of one input or more, the most is 2");
  EXPECT_EQ(beyond(4, [](auto& r, int) { r.add_outputs("x"); }),
            "the request has 4 requested outputs or more, the most is 3");
  EXPECT_EQ(beyond(5, [](auto& r, int i) { (*r.mutable_parameters())[std::to_string(i)] = 1; }),
            "the request has 5 parameters or more, the most is 4");
  EXPECT_EQ(
      beyond(6,
             [&](auto& r, int) {
               v1::RawTensors& tensors = *raw(r);
               (tensors.tensors_size() == 0 ? tensors.add_tensors() : tensors.mutable_tensors(0))
                   ->add_shape(1);
             }),
      "the request has 6 dimensions in raw tensor 0 or more, the most is 5");
}

TEST(TypedCodecTest, AnswersHoldValuesByTheirKindAndStandInTheirOrder) {
  std::vector<float> floats = {1.5f, -2, 3, 4, 5, 6};
  std::vector<int32_t> integers = {0, -1, 1};
  const auto bytes = [](auto& values) {
    return absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()), values.size() * 4);
  };
  const auto names = *Vocabulary::Create("zero\none\n");
  std::vector<int32_t> named = {1, 0};
  const std::vector<ReturnedTensor> tensors = {
      {.name = "OUTPUT", .type = WireType::kFp32, .dims = {3, 2}, .bytes = bytes(floats)},
      {.name = "LENGTH", .type = WireType::kInt32, .dims = {3}, .bytes = bytes(integers)},
      {.name = "LABELS",
       .type = WireType::kInt32,
       .dims = {2},
       .bytes = bytes(named),
       .names = names.get()},
      {.name = "NONE", .type = WireType::kInt32, .dims = {0}, .bytes = {}}};
  const std::vector<std::string> answers = {
      EncodeAnswer(tensors), EncodeAnswer(absl::InvalidArgumentError("no such word"))};
  v1::InferResponse response;
  ASSERT_TRUE(response.ParseFromString(EncodeTypedResponse(*TinyModel(), "an id", answers)));
  EXPECT_EQ(response.model_name(), "tiny");
  EXPECT_EQ(response.model_version(), "1");
  EXPECT_EQ(response.id(), "an id");
  ASSERT_EQ(response.answers_size(), 2);
  const v1::Answer& answer = response.answers(0);
  EXPECT_EQ(answer.code(), 0);
  ASSERT_EQ(answer.outputs_size(), 4);
  EXPECT_THAT(answer.outputs(0).floats(), ElementsAre(1.5f, -2, 3, 4, 5, 6));
  EXPECT_THAT(answer.outputs(0).shape(), ElementsAre(3, 2));
  EXPECT_THAT(answer.outputs(1).integers(), ElementsAre(0, -1, 1));
  EXPECT_THAT(answer.outputs(2).texts(), ElementsAre("one", "zero"));
  EXPECT_THAT(answer.outputs(3).integers(), IsEmpty());
  EXPECT_EQ(answer.outputs(3).datatype(), "INT32");
  EXPECT_EQ(answer.outputs(2).datatype(), "BYTES");
  EXPECT_EQ(response.answers(1).code(), 3);
  EXPECT_EQ(response.answers(1).error(), "no such word");

  named = {-1, 2};
  ASSERT_TRUE(response.mutable_answers(0)->ParseFromString(EncodeAnswer(tensors)));
  EXPECT_THAT(response.answers(0).outputs(2).texts(), ElementsAre("", "")) << "no such names";

  v1::DecodeResponse event;
  ASSERT_TRUE(event.ParseFromString(EncodeWord(0, 1, names.get())));
  EXPECT_EQ(event.word().text(), "one");
  ASSERT_TRUE(event.ParseFromString(EncodeWord(4, 17, nullptr)));
  EXPECT_EQ(event.word().step(), 4);
  EXPECT_EQ(event.word().id(), 17);
  ASSERT_TRUE(event.ParseFromString(EncodeEnd(5, true)));
  EXPECT_EQ(event.end().length(), 5);
  EXPECT_TRUE(event.end().stopped());
}

}  // namespace
}  // namespace cellbatch
