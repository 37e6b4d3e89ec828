// Graphs of translations: computed by the interpreter and compared with the same cells called one after the other;
// what a request may ask for, and what cells must look like.
#include "cells/unfold/encoder_decoder_unfolder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "cells/kernels/reference/graph_interpreter.h"
#include "cells/unfold/size_bound.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

using testing::CellBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int32_t kVocabulary = 11, kUnits = 5, kCap = 12;

// tanh(W [inputs...]) as every column that is FP32, argmax of a product as "word".
void LeaveState(CellBuilder& b, ValueId read, int32_t width, bool word) {
  for (const char* column : {"h", "c"}) {
    b.Leave(column, b.Tanh(b.MatMul(read, b.Matrix(fmt::format("W_{}", column), kUnits, width))));
  }
  if (!word) return;
  const ValueId logits = b.MatMul(read, b.Matrix("W_word", kVocabulary, width));
  b.Leave("word", b.Op1(OpKind::kArgMax, logits));
}

CellDefinition Layer(size_t inputs, bool tokens) {
  CellBuilder b("layer");
  ValueId read = b.Carry("before", "h", kUnits);
  int32_t width = kUnits;
  if (tokens) {
    const ValueId token = b.Read("x", "token", 1, ElementType::kInt32);
    read = b.Concat(read, b.Lookup(b.Matrix("E", kVocabulary, 3), token));
    width += 3;
  } else if (inputs == 1) {
    read = b.Concat(read, b.Read("x", "h", kUnits));
    width += kUnits;
  } else {
    const ValueId forward = b.Read("forward", "h", kUnits);
    read = b.Concat(read, forward, b.Read("backward", "h", kUnits));
    width += 2 * kUnits;
  }
  LeaveState(b, read, width, false);
  return b.Build();
}

CellDefinition Bridge(size_t layers, size_t directions) {
  CellBuilder b("bridge");
  ValueId read;
  int32_t width = 0;
  for (size_t l = 0; l < layers; ++l) {
    for (size_t d = 0; d < directions; ++d) {
      const ValueId end = b.Read(BridgeInputName(l, d == 1), "h", kUnits);
      read = read.valid() ? b.Concat(read, end) : end;
      width += kUnits;
    }
  }
  LeaveState(b, read, width, true);
  return b.Build();
}

CellDefinition Decoder(const std::string& word = "word") {
  CellBuilder b("decoder");
  const ValueId h = b.Carry("before", "h", kUnits), c = b.Carry("before", "c", kUnits);
  const ValueId before = b.Carry("before", word, 1, ElementType::kInt32);
  const ValueId read = b.Concat(h, c, b.Lookup(b.Matrix("E", kVocabulary, 4), before));
  const int32_t width = 2 * kUnits + 4;
  LeaveState(b, read, width, false);
  b.Leave(word, b.Op1(OpKind::kArgMax, b.MatMul(read, b.Matrix("W_word", kVocabulary, width))));
  return b.Build();
}

// An encoder of `layers` and `directions`, a bridge and a decoder, with random weights.
struct Translator {
  Translator(size_t layers, size_t directions, uint64_t seed) {
    testing::ModelBuilder builder;
    std::vector<CellTypeId> below;
    for (size_t l = 0; l < layers; ++l) {
      std::vector<CellTypeId> made;
      for (size_t d = 0; d < directions; ++d) {
        made.push_back(builder.Add(Layer(below.size(), l == 0), seed++));
        if (below.size() == 1) builder.Connect(made[d], "x", below[0]);
        for (size_t i = 0; i < 2 && below.size() == 2; ++i) {
          builder.Connect(made[d], i == 0 ? "forward" : "backward", below[i]);
        }
      }
      spec.encoder.layers.push_back({made[0], directions == 2 ? made[1] : CellTypeId()});
      ends.push_back(made);
      below = made;
    }
    spec.bridge = builder.Add(Bridge(layers, directions), seed++);
    for (size_t l = 0; l < layers; ++l) {
      for (size_t d = 0; d < directions; ++d) {
        builder.Connect(spec.bridge, BridgeInputName(l, d == 1), ends[l][d]);
      }
    }
    spec.decoder = builder.Add(Decoder(), seed++);
    model = builder.Build();
    spec.encoder.input = testing::FindTable(*model, "token");
    spec.encoder.vocabulary_size = kVocabulary;
    spec.encoder.max_sequence_length = 9;
    spec.max_decode_steps = kCap;
  }

  std::unique_ptr<EncoderDecoderUnfolder> Unfolder() const {
    auto made = EncoderDecoderUnfolder::Create(spec, *model);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }
  RowValues Node(CellTypeId id, const std::vector<RowValues>& inputs) const {
    return InterpretNode(*model->type(id).definition, model->type(id).weights, inputs);
  }
  // The words that a decoder leaves one after the other, for ever: straight from the definition.
  std::vector<int32_t> Words(const std::vector<int32_t>& source, int32_t count) const {
    const size_t steps = source.size();
    std::vector<std::vector<RowValues>> below;  // [step][direction], what one input reads
    for (const int32_t token : source) below.push_back({{{static_cast<double>(token)}}});
    std::vector<RowValues> last;
    for (const auto& layer : ends) {
      std::vector<std::vector<RowValues>> made(steps, std::vector<RowValues>(layer.size()));
      for (size_t d = 0; d < layer.size(); ++d) {
        RowValues h = {ColumnValues(kUnits, 0.0)};
        for (size_t i = 0; i < steps; ++i) {
          const size_t t = d == 1 ? steps - 1 - i : i;
          std::vector<RowValues> inputs = {h};
          inputs.insert(inputs.end(), below[t].begin(), below[t].end());
          h = {Node(layer[d], inputs)[0]};
          made[t][d] = h;
        }
        last.push_back(h);
      }
      below = made;
    }
    RowValues state = Node(spec.bridge, last);
    std::vector<int32_t> words;
    while (static_cast<int32_t>(words.size()) < count) {
      state = Node(spec.decoder, {state});
      words.push_back(static_cast<int32_t>(state[2][0]));
    }
    return words;
  }

  EncoderDecoderSpec spec;
  std::vector<std::vector<CellTypeId>> ends;
  std::shared_ptr<Model> model;
};

RequestInput Source(const std::vector<int32_t>& tokens) {
  RequestInput input;
  input.tensors.push_back(
      {kSourceInput,
       WireType::kInt32,
       {static_cast<int64_t>(tokens.size())},
       absl::MakeConstSpan(reinterpret_cast<const std::byte*>(tokens.data()), tokens.size() * 4)});
  return input;
}

// The answer as a responder would see it: computed, written where the manager writes it, closed.
std::vector<std::vector<int32_t>> Answer(const Model& model, CellGraph& graph) {
  const std::vector<std::vector<double>> values = InterpretGraph(model, graph);
  for (size_t t = 0; t < values.size(); ++t) {
    for (size_t i = 0; i < values[t].size(); ++i) {
      const auto word = static_cast<int32_t>(values[t][i]);
      std::memcpy(graph.tensors()[t].bytes.data() + i * 4, &word, 4);
    }
  }
  graph.CloseAnswer();
  std::vector<std::vector<int32_t>> answer;
  for (const ReturnedTensor& t : graph.tensors()) {
    answer.emplace_back(t.bytes.size() / 4);
    EXPECT_THAT(t.dims, ElementsAre(static_cast<int64_t>(answer.back().size()))) << t.name;
    if (!t.bytes.empty()) std::memcpy(answer.back().data(), t.bytes.data(), t.bytes.size());
  }
  return answer;
}

TEST(EncoderDecoderUnfolderTest, TheWordsAreThoseOfTheCellsCalledOneAfterTheOther) {
  std::mt19937 random(3);
  int stopped = 0, empty = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Translator t(1 + seed % 2, 1 + seed / 2 % 2, seed * 100);
    std::vector<int32_t> source(1 + random() % 9);
    for (int32_t& token : source) token = static_cast<int32_t>(random() % kVocabulary);
    std::vector<int32_t> words = t.Words(source, kCap);
    // A random decoder says one word over and over; a word that it does say makes it stop.
    t.spec.end_of_sequence =
        seed % 3 == 0 ? static_cast<int32_t>(random() % kVocabulary) : words[seed % kCap];
    RequestInput input = Source(source);
    input.outputs = {"STOPPED", "OUTPUT", "LENGTH"};
    CellGraph graph;
    ASSERT_TRUE(t.Unfolder()->Unfold(input, graph).ok());
    ASSERT_TRUE(graph.Seal(*t.model, 2).ok());
    const auto answer = Answer(*t.model, graph);

    const auto end = std::find(words.begin(), words.end(), t.spec.end_of_sequence);
    EXPECT_EQ(answer[0], (std::vector<int32_t>{end == words.end() ? 0 : 1})) << seed;
    words.erase(end, words.end());
    EXPECT_EQ(answer[1], words) << seed;
    EXPECT_EQ(answer[2], (std::vector<int32_t>{static_cast<int32_t>(words.size())})) << seed;
    stopped += answer[0][0];
    empty += words.empty() ? 1 : 0;
  }
  EXPECT_GT(stopped, 10);
  EXPECT_LT(stopped, 40);
  EXPECT_GT(empty, 0) << "an answer of no words should be among them";
}

TEST(EncoderDecoderUnfolderTest, AnAnswerHoldsWhatWasAskedForAndNoMore) {
  const Translator t(1, 1, 7);
  const std::vector<int32_t> source = {1, 2, 3};
  for (const std::vector<std::string_view>& outputs :
       {std::vector<std::string_view>{}, {"LENGTH"}, {"STOPPED", "LENGTH"}}) {
    RequestInput input = Source(source);
    input.outputs = outputs;
    CellGraph graph;
    ASSERT_TRUE(t.Unfolder()->Unfold(input, graph).ok());
    ASSERT_TRUE(graph.Seal(*t.model, 1).ok());
    Answer(*t.model, graph);
    ASSERT_EQ(graph.tensors().size(), std::max<size_t>(outputs.size(), 1));
    EXPECT_EQ(graph.tensors()[0].name, outputs.empty() ? "OUTPUT" : outputs[0]);
  }
}

TEST(EncoderDecoderUnfolderTest, DecodeStepsAreSoManyWhateverTheWordsAre) {
  Translator t(2, 1, 11);
  const std::vector<int32_t> source = {4, 4, 1};
  const std::vector<int32_t> words = t.Words(source, kCap);
  t.spec.end_of_sequence = words[0];  // at once
  RequestInput input = Source(source);
  input.outputs = {"OUTPUT", "STOPPED"};
  input.parameters = {{kDecodeSteps, 7}};
  CellGraph graph;
  ASSERT_TRUE(t.Unfolder()->Unfold(input, graph).ok());
  ASSERT_TRUE(graph.Seal(*t.model, 2).ok());
  const auto answer = Answer(*t.model, graph);
  EXPECT_EQ(answer[0], std::vector<int32_t>(words.begin(), words.begin() + 7));
  EXPECT_THAT(answer[1], ElementsAre(0));
}

// V14: a decode that never ends is cut at the cap, and says so.
TEST(EncoderDecoderUnfolderTest, ADecodeThatNeverEndsStopsAtTheCapWithAFlag) {
  Translator t(1, 1, 13);
  t.spec.end_of_sequence = kVocabulary + 5;  // no word
  for (const int64_t cap : {int64_t{1}, int64_t{5}, int64_t{kCap}}) {
    const std::vector<int32_t> source = {9};
    RequestInput input = Source(source);
    input.outputs = {"OUTPUT", "LENGTH", "STOPPED"};
    input.parameters = {{kMaxDecodeSteps, cap}};
    CellGraph graph;
    ASSERT_TRUE(t.Unfolder()->Unfold(input, graph).ok());
    ASSERT_TRUE(graph.Seal(*t.model, 2).ok());
    EXPECT_LE(graph.subgraphs().back().ring, 2) << "rows do not grow with the cap";
    const auto answer = Answer(*t.model, graph);
    EXPECT_EQ(answer[0], t.Words(source, static_cast<int32_t>(cap)));
    EXPECT_THAT(answer[1], ElementsAre(cap));
    EXPECT_THAT(answer[2], ElementsAre(0));
  }
}

// V14
TEST(EncoderDecoderUnfolderTest, StepsOutsideTheCapAreRefusedWithBothValues) {
  const Translator t(1, 1, 17);
  const std::vector<int32_t> source = {1};
  const auto error = [&](std::vector<RequestParameter> parameters) {
    RequestInput input = Source(source);
    input.parameters = std::move(parameters);
    CellGraph graph;
    const absl::Status s = t.Unfolder()->Unfold(input, graph);
    EXPECT_TRUE(s.ok() || s.code() == absl::StatusCode::kInvalidArgument);
    return s.ok() ? "accepted" : std::string(s.message());
  };
  EXPECT_EQ(error({{kMaxDecodeSteps, 12}}), "accepted");
  EXPECT_EQ(error({{kMaxDecodeSteps, 0}}), "parameter max_decode_steps is 0, allowed are 1 to 12");
  EXPECT_EQ(error({{kMaxDecodeSteps, -3}}),
            "parameter max_decode_steps is -3, allowed are 1 to 12");
  EXPECT_EQ(error({{kMaxDecodeSteps, 13}}),
            "parameter max_decode_steps is 13, allowed are 1 to 12");
  EXPECT_EQ(error({{kDecodeSteps, INT64_MAX}}),
            "parameter decode_steps is 9223372036854775807, allowed are 1 to 12");
  EXPECT_EQ(error({{kDecodeSteps, 2}, {kMaxDecodeSteps, 3}}),
            "parameters max_decode_steps (3) and decode_steps (2) exclude each other");
}

TEST(EncoderDecoderUnfolderTest, ARequestOfMoreNodesThanTheModelTakesIsRefused) {
  Translator t(2, 1, 18);
  t.spec.max_nodes = 2 * 9 + 1 + 5;
  const std::vector<int32_t> source(9, 1);
  RequestInput input = Source(source);
  CellGraph graph;
  EXPECT_EQ(std::string(t.Unfolder()->Unfold(input, graph).message()),
            "input SOURCE: 9 words and at most 12 decoder steps make 31 nodes, the model takes 24");
  input.parameters = {{kMaxDecodeSteps, 5}};
  EXPECT_TRUE(t.Unfolder()->Unfold(input, graph).ok());
}

void ExpectSourcesTakenByTheirSizeAlone(const EncoderDecoderSpec& of, const Model& model) {
  for (int32_t words = 1; words <= 9; words += 4) {
    for (const int64_t steps : {1, 7, kCap}) {
      const std::vector<int32_t> source(static_cast<size_t>(words), 1);
      RequestInput input = Source(source);
      input.parameters = {{words == 5 ? kDecodeSteps : kMaxDecodeSteps, steps}};
      ExpectTakenByItsSizeAlone([&](int64_t most, CellGraph& graph) {
        EncoderDecoderSpec spec = of;
        spec.max_nodes = most;
        return (*EncoderDecoderUnfolder::Create(spec, model))->Unfold(input, graph);
      });
    }
  }
}

// Below a bridge; and over an embedding, without one.
TEST(EncoderDecoderUnfolderTest, ARequestIsRefusedForItsSizeWhenItsGraphIsTooLarge) {
  for (const size_t layers : {1, 2}) {
    for (const size_t directions : {1, 2}) {
      const Translator t(layers, directions, 20);
      ExpectSourcesTakenByTheirSizeAlone(t.spec, *t.model);
    }
  }
  CellBuilder embedding("embedding"), layer("layer");
  const ValueId token = embedding.Read("token", "token", 1, ElementType::kInt32);
  embedding.Leave("x", embedding.Lookup(embedding.Matrix("E", kVocabulary, 3), token));
  const ValueId before = layer.Carry("before", "h", kUnits);
  LeaveState(layer, layer.Concat(before, layer.Read("x", "x", 3)), kUnits + 3, true);
  testing::ModelBuilder builder;
  EncoderDecoderSpec plain = Translator(1, 1, 20).spec;
  plain.encoder.embedding = builder.Add(embedding.Build(), 1);
  plain.encoder.layers = {{builder.Add(layer.Build(), 2), {}}};
  builder.Connect(plain.encoder.layers[0].forward, "x", plain.encoder.embedding);
  plain.bridge = {};
  plain.decoder = builder.Add(Decoder(), 3);
  const auto model = builder.Build();
  plain.encoder.input = testing::FindTable(*model, "token");
  ExpectSourcesTakenByTheirSizeAlone(plain, *model);
}

TEST(EncoderDecoderUnfolderTest, BadRequestsAreRefusedByName) {
  const Translator t(1, 1, 19);
  const auto error = [&](const RequestInput& input) {
    CellGraph graph;
    const absl::Status s = t.Unfolder()->Unfold(input, graph);
    return s.ok() ? "accepted" : std::string(s.message());
  };
  const std::vector<int32_t> good = {1, 2}, bad = {1, kVocabulary}, many(10, 1);
  EXPECT_EQ(error({}), "input SOURCE: missing");
  EXPECT_EQ(error(Source(bad)), "input SOURCE: token 1 is 11, the vocabulary ends at 10");
  EXPECT_EQ(error(Source(many)), "input SOURCE: length 10, the model takes 9");
  EXPECT_THAT(error(Source({})), HasSubstr("shape [0], expected [-1]"));
  RequestInput input = Source(good);
  input.outputs = {"ALL_HIDDEN"};
  EXPECT_EQ(error(input), "output ALL_HIDDEN: the model has no such output");
  input.outputs = {"LENGTH", "LENGTH"};
  EXPECT_EQ(error(input), "output LENGTH: asked for twice");
  input = Source(good);
  input.tensors.push_back(input.tensors[0]);
  input.tensors[1].name = "TOKENS";
  EXPECT_EQ(error(input), "input TOKENS: the model has no such input, it takes SOURCE");
}

TEST(EncoderDecoderUnfolderTest, CellsThatDoNotFitAreNamed) {
  const Translator t(2, 1, 23);
  const auto error = [&](auto change) {
    EncoderDecoderSpec spec = t.spec;
    change(spec);
    auto made = EncoderDecoderUnfolder::Create(spec, *t.model);
    return made.ok() ? "accepted" : std::string(made.status().message());
  };
  EXPECT_EQ(error([](auto&) {}), "accepted");
  EXPECT_THAT(error([](auto& s) { s.bridge = {}; }), HasSubstr("2 layers need a bridge"));
  EXPECT_THAT(error([](auto& s) {
                s.bridge = {};
                s.encoder.layers = {{{}, s.encoder.layers[0].forward}};
              }),
              HasSubstr("1 layers with a backward direction need a bridge"));
  EXPECT_THAT(error([](auto& s) { s.encoder.layers.pop_back(); }),
              HasSubstr("has an input \"layer1\", which is the end of none of the 1 layers"));
  EXPECT_THAT(error([](auto& s) { s.bridge = s.decoder; }), HasSubstr("is a chain"));
  EXPECT_THAT(error([](auto& s) { s.decoder = s.encoder.layers[0].forward; }),
              HasSubstr("it reads its carry and nothing else"));
  EXPECT_THAT(error([](auto& s) { s.decoder = s.bridge; }), HasSubstr("and no carry"));
  EXPECT_THAT(error([](auto& s) { s.decoder = {}; }), HasSubstr("cell type -1 of 4"));
  EXPECT_THAT(error([](auto& s) { s.max_decode_steps = 0; }), HasSubstr("is 0, allowed are 1"));
  EXPECT_THAT(error([](auto& s) { s.end_of_sequence = -2; }), HasSubstr("is -2, the least is 0"));
  EXPECT_THAT(error([](auto& s) { s.encoder.head = s.bridge; }), HasSubstr("has a head"));
  constexpr int32_t kMost = 1 << 20;
  EXPECT_EQ(error([](auto& s) { s.max_decode_steps = kMost, s.end_of_sequence = 0; }), "accepted");
  EXPECT_THAT(error([](auto& s) { s.max_decode_steps = kMost + 1; }),
              HasSubstr("is 1048577, allowed are 1 to 1048576"));
  EXPECT_THAT(error([](auto& s) { s.end_of_sequence = -1; }), HasSubstr("is -1, the least is 0"));
  EXPECT_THAT(error([](auto& s) {  // two layers, of which the bridge reads each other's end
                std::swap(s.encoder.layers[0], s.encoder.layers[1]);
              }),
              HasSubstr("cell type \"layer_1\""));

  testing::ModelBuilder builder;
  EncoderDecoderSpec plain = t.spec;
  plain.encoder.layers = {{builder.Add(Layer(0, true), 1), {}}};
  plain.bridge = {};
  plain.decoder = builder.Add(Decoder(), 2);
  const auto model = builder.Build();
  plain.encoder.input = testing::FindTable(*model, "token");
  EXPECT_THAT(std::string(EncoderDecoderUnfolder::Create(plain, *model).status().message()),
              HasSubstr("leaves h FP32[5], c FP32[5]; the decoder \"decoder_1\" carries "
                        "h FP32[5], c FP32[5], word INT32[1], in this order"));
}

}  // namespace
}  // namespace cellbatch
