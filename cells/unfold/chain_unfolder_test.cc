// The graph is computed by a slow walk over its links with cells that hash what they read; what comes out is
// compared with the same hashes computed straight from the definition of stacked, bidirectional chains.
#include "cells/unfold/chain_unfolder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "cells/unfold/model_of_hashes.h"
#include "cells/unfold/size_bound.h"

namespace cellbatch {
namespace {

using ::testing::HasSubstr;

// A value in [0, 1) that depends on everything given, in its order.
float Hash(CellTypeId type, int column, const std::vector<float>& read) {
  uint64_t hash = 1469598103934665603ull + static_cast<uint64_t>(type.value() * 16 + column);
  for (const float f : read) {
    uint32_t bits = 0;
    std::memcpy(&bits, &f, sizeof(bits));
    hash = (hash ^ bits) * 1099511628211ull;
    hash ^= hash >> 29;
  }
  return static_cast<float>(hash % 1000003) / 1000003.0f;
}

// Computes a sealed graph, one node at a time, and fills its answer.
class Walk {
 public:
  Walk(const Model& model, const CellGraph& graph) : model_(model), graph_(graph) {
    for (const Subgraph& s : graph.subgraphs()) {
      values_.emplace_back();
      for (int32_t t = 0; t < s.length; ++t) values_.back().push_back(Node(s, t));
      Return(s);
    }
  }

 private:
  std::vector<float> Node(const Subgraph& s, int32_t t) const {
    if (!s.type.valid()) {
      std::vector<float> row(model_.table(s.table).columns.size());
      const auto length = static_cast<size_t>(s.length);
      for (size_t c = 0; c < row.size(); ++c) {
        std::memcpy(&row[c], s.data + (c * length + static_cast<size_t>(t)) * 4, sizeof(float));
      }
      return row;
    }
    const CellType& type = model_.type(s.type);
    std::vector<float> read;
    for (size_t i = 0; i < type.definition->inputs().size(); ++i) {
      std::vector<float> row(type.definition->inputs()[i].reads.size(), 0.0f);
      if (type.definition->carry() == InputId(static_cast<int64_t>(i)) && t > 0) {
        row = values_.back().back();
      } else {
        for (int32_t l = s.first_link; l < s.first_link + s.num_links; ++l) {
          const Link& link = graph_.links()[static_cast<size_t>(l)];
          if (link.input.value() != static_cast<int32_t>(i) || !link.from.valid()) continue;
          row = values_[static_cast<size_t>(link.from.value())]
                       [static_cast<size_t>(link.first + t * link.stride)];
        }
      }
      read.insert(read.end(), row.begin(), row.end());
    }
    std::vector<float> left;
    for (size_t c = 0; c < type.definition->columns().size(); ++c) {
      left.push_back(Hash(s.type, static_cast<int>(c), read));
    }
    return left;
  }

  void Return(const Subgraph& s) const {
    for (int32_t r = s.first_return; r < s.first_return + s.num_returns; ++r) {
      const ReturnPiece& piece = graph_.returns()[static_cast<size_t>(r)];
      for (int32_t i = 0; i < piece.nodes.count; ++i) {
        const float value = values_.back()[static_cast<size_t>(piece.nodes.first + i)]
                                          [static_cast<size_t>(piece.column.value())];
        std::memcpy(graph_.tensors()[static_cast<size_t>(piece.where.tensor)].bytes.data() +
                        piece.where.offset_bytes + i * piece.where.stride_bytes,
                    &value, sizeof(value));
      }
    }
  }

  const Model& model_;
  const CellGraph& graph_;
  std::vector<std::vector<std::vector<float>>> values_;  // [subgraph][node][column]
};

// The definition, said directly. Values by time step. `begin_h`, `begin_c`: by chain.
struct Answer {
  std::vector<float> output, all_hidden, final_h, final_c;
};
Answer Expected(const ModelOfHashes& m, const std::vector<float>& input, const float* begin_h,
                const float* begin_c) {
  const int32_t steps = static_cast<int32_t>(input.size());
  std::vector<std::vector<float>> below;  // [time][direction]
  for (const float x : input) below.push_back({x});
  // Above a layer a node reads whole rows: h and c of each direction below.
  std::vector<std::vector<float>> rows = below;
  Answer answer;
  std::vector<float> ends;
  for (const ChainLayerSpec& layer : m.spec().layers) {
    std::vector<std::vector<float>> hidden(input.size()), next(input.size());
    ends.clear();
    for (const CellTypeId type : {layer.forward, layer.backward}) {
      if (!type.valid()) continue;
      std::vector<float> state = {*begin_h++, *begin_c++};
      for (int32_t i = 0; i < steps; ++i) {
        const size_t t = static_cast<size_t>(type == layer.backward ? steps - 1 - i : i);
        std::vector<float> read = state;
        read.insert(read.end(), rows[t].begin(), rows[t].end());
        state = {Hash(type, 0, read), Hash(type, 1, read)};
        hidden[t].push_back(state[0]);
        next[t].insert(next[t].end(), state.begin(), state.end());
      }
      answer.final_h.push_back(state[0]);
      answer.final_c.push_back(state[1]);
      ends.insert(ends.end(), state.begin(), state.end());
    }
    rows = next;
    below = hidden;
  }
  for (const auto& h : below) answer.all_hidden.insert(answer.all_hidden.end(), h.begin(), h.end());
  if (m.spec().head.valid()) {
    answer.output = {Hash(m.spec().head, 0, ends)};
  } else if (m.spec().token_head.valid()) {
    for (const auto& row : rows) answer.output.push_back(Hash(m.spec().token_head, 0, row));
  } else {
    const ChainLayerSpec& last = m.spec().layers.back();
    const size_t top = last.forward.valid() && last.backward.valid() ? 2 : 1;
    answer.output.assign(answer.final_h.end() - static_cast<ptrdiff_t>(top), answer.final_h.end());
  }
  return answer;
}

template <typename T>
InputTensor Tensor(std::string_view name, WireType type, TensorDims dims,
                   const std::vector<T>& values) {
  return {name, type, std::move(dims),
          absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()),
                              values.size() * sizeof(T))};
}

std::vector<float> Floats(const ReturnedTensor& t) {
  std::vector<float> values(t.bytes.size() / sizeof(float));
  std::memcpy(values.data(), t.bytes.data(), t.bytes.size());
  return values;
}

struct Shape4 {
  bool tokens;
  int layers, directions;
  Head head;
  bool embedding;
  bool characters = false;
};

// Token i of the request, as what a cell that hashes bits sees.
float AsBits(int32_t token) {
  float value = 0;
  std::memcpy(&value, &token, sizeof(value));
  return value;
}

// What the lowest layer reads of a word: by its number, or by its characters if it has any.
float WordRow(const ModelOfHashes& m, float number, const std::vector<int32_t>& characters) {
  if (characters.empty()) {
    return m.spec().embedding.valid() ? Hash(m.spec().embedding, 0, {number}) : number;
  }
  const CharacterSpec& c = m.spec().characters;
  std::vector<float> ends;
  for (const bool backward : {false, true}) {
    std::vector<int32_t> read(characters);
    if (backward) std::reverse(read.begin(), read.end());
    std::vector<float> state = {0, 0};
    for (const int32_t character : read) {
      const CellTypeId type = backward ? c.backward : c.forward;
      state.push_back(AsBits(character));
      state = {Hash(type, 0, state), Hash(type, 1, state)};
    }
    ends.insert(ends.end(), state.begin(), state.end());
  }
  return Hash(c.word, 0, ends);
}

// Words of a message: some spelled, if the shape says so.
struct Words {
  Words(const Shape4& shape, const std::vector<int32_t>& lengths, std::mt19937& random) {
    for (const int32_t length : lengths) {
      for (int32_t i = 0; i < length; ++i) {
        tokens.push_back(static_cast<int32_t>(random() % kVocabulary));
        x.push_back(static_cast<float>(random() % 1000));
        const bool spelled = shape.characters && random() % 3 == 0;
        char_lengths.push_back(spelled ? 1 + static_cast<int32_t>(random() % 4) : 0);
        for (int32_t c = 0; c < char_lengths.back(); ++c) {
          char_ids.push_back(static_cast<int32_t>(random() % kCharacters));
        }
      }
    }
  }

  // What the lowest layer reads, by step.
  std::vector<float> Rows(const ModelOfHashes& m, bool as_tokens) const {
    std::vector<float> rows;
    auto character = char_ids.begin();
    for (size_t t = 0; t < tokens.size(); ++t) {
      const auto end = character + char_lengths[t];
      rows.push_back(WordRow(m, as_tokens ? AsBits(tokens[t]) : x[t], {character, end}));
      character = end;
    }
    return rows;
  }

  RequestInput Input(const Shape4& shape) const {
    const auto steps = static_cast<int64_t>(x.size());
    RequestInput input;
    input.tensors.push_back(shape.tokens ? Tensor("TOKENS", WireType::kInt32, {steps}, tokens)
                                         : Tensor("X", WireType::kFp32, {steps, 1}, x));
    if (!shape.characters) return input;
    input.tensors.push_back(Tensor("CHAR_LENGTHS", WireType::kInt32, {steps}, char_lengths));
    const auto characters = static_cast<int64_t>(char_ids.size());
    if (characters > 0) {
      input.tensors.push_back(Tensor("CHAR_IDS", WireType::kInt32, {characters}, char_ids));
    }
    return input;
  }

  int64_t num_spelled() const {
    return std::count_if(char_lengths.begin(), char_lengths.end(), [](int32_t n) { return n > 0; });
  }

  std::vector<float> x;
  std::vector<int32_t> tokens, char_lengths, char_ids;
};

void CheckAgainstDefinition(const Shape4& shape, const std::vector<int32_t>& lengths, bool many,
                            std::mt19937& random) {
  const ModelOfHashes m(shape.tokens, shape.layers, shape.directions, shape.head, shape.embedding,
                        shape.characters);
  auto unfolder = ChainUnfolder::Create(m.spec(), m.model());
  ASSERT_TRUE(unfolder.ok()) << unfolder.status();
  const Words words(shape, lengths, random);
  const std::vector<float> rows = words.Rows(m, shape.tokens);
  const int64_t steps = static_cast<int64_t>(rows.size());
  RequestInput input = words.Input(shape);
  const int64_t count = static_cast<int64_t>(lengths.size());
  if (many) input.tensors.push_back(Tensor("LENGTHS", WireType::kInt32, {count}, lengths));
  const int64_t directions = std::abs(shape.directions);
  const int64_t chains = shape.layers * directions;
  std::vector<float> begin_h(static_cast<size_t>(count * chains)), begin_c(begin_h.size());
  const TensorDims state_dims = many ? TensorDims{count, chains, 1} : TensorDims{chains, 1};
  if (random() % 2 == 0) {
    for (float& f : begin_h) f = static_cast<float>(1 + random() % 1000);
    for (float& f : begin_c) f = static_cast<float>(1 + random() % 1000);
    input.tensors.push_back(Tensor("INITIAL_C", WireType::kFp32, state_dims, begin_c));
    input.tensors.push_back(Tensor("INITIAL_H", WireType::kFp32, state_dims, begin_h));
  }
  input.outputs = {"FINAL_C", "OUTPUT", "ALL_HIDDEN", "FINAL_H"};
  CellGraph graph;
  const absl::Status unfolded = (*unfolder)->Unfold(input, graph);
  ASSERT_TRUE(unfolded.ok()) << unfolded;
  const absl::Status sealed = graph.Seal(m.model(), 1);
  ASSERT_TRUE(sealed.ok()) << sealed;
  const Walk walk(m.model(), graph);

  std::vector<float> output, hidden, final_h, final_c;
  auto row = rows.begin();
  size_t chain = 0;
  for (const int32_t length : lengths) {
    const Answer a = Expected(m, {row, row + length}, &begin_h[chain], &begin_c[chain]);
    row += length;
    chain += static_cast<size_t>(chains);
    output.insert(output.end(), a.output.begin(), a.output.end());
    hidden.insert(hidden.end(), a.all_hidden.begin(), a.all_hidden.end());
    final_h.insert(final_h.end(), a.final_h.begin(), a.final_h.end());
    final_c.insert(final_c.end(), a.final_c.begin(), a.final_c.end());
  }
  EXPECT_EQ(Floats(graph.tensors()[0]), final_c);
  EXPECT_EQ(Floats(graph.tensors()[1]), output);
  EXPECT_EQ(Floats(graph.tensors()[2]), hidden);
  EXPECT_EQ(Floats(graph.tensors()[3]), final_h);
  using Dims = TensorDims;
  EXPECT_EQ(graph.tensors()[0].dims, state_dims);
  EXPECT_EQ(graph.tensors()[2].dims, (Dims{steps, directions}));
  if (shape.head == Head::kEveryStep) {
    EXPECT_EQ(graph.tensors()[1].dims, (Dims{steps, 1}));
  }
  const int64_t heads = shape.head == Head::kEnd ? count : shape.head == Head::kNone ? 0 : steps;
  const int64_t embedded = shape.embedding ? steps - words.num_spelled() : 0;
  const int64_t spelling = 2 * static_cast<int64_t>(words.char_ids.size()) + words.num_spelled();
  EXPECT_EQ(graph.num_nodes(), steps * chains + heads + embedded + spelling);
}

// Characters, words, a layer, the layer over both of its directions, heads.
TEST(ChainUnfolderTest, WhatWaitsForTheEndOfASentenceBeginsAPhase) {
  const auto phases = [](const ModelOfHashes& made) {
    return (*ChainUnfolder::Create(made.spec(), made.model()))->phases();
  };
  EXPECT_EQ(phases({true, 3, 1, Head::kNone, false}), 1);
  EXPECT_EQ(phases({true, 3, 1, Head::kEveryStep, false}), 2);
  EXPECT_EQ(phases({true, 3, 2, Head::kEnd, false}), 4);
  EXPECT_EQ(phases({true, 2, 2, Head::kEveryStep, true, true}), 5);
  EXPECT_EQ(phases({true, 40, 2, Head::kEveryStep, false}), kMostPhases);
}

TEST(ChainUnfolderTest, EveryShapeOfChainComputesItsDefinition) {
  constexpr uint32_t kSeed = 7;
  std::mt19937 random(kSeed);
  for (int bits = 0; bits < 2 * 96; ++bits) {
    const int directions = (bits & 2) != 0 ? 2 : bits >= 96 ? kBackwardAlone : 1;
    const Shape4 shape = {.tokens = (bits & 1) != 0,
                          .layers = 1 + bits % 96 / 32,
                          .directions = directions,
                          .head = static_cast<Head>((bits >> 2) % 3),
                          .embedding = (bits & 17) == 17};
    SCOPED_TRACE(fmt::format("shape {}, seed {}", bits, kSeed));
    CheckAgainstDefinition(shape, {1}, false, random);
    CheckAgainstDefinition(shape, {9}, false, random);
    CheckAgainstDefinition(shape, {3, 1, 12, 2, 1}, true, random);
    CheckAgainstDefinition(shape, {4}, true, random);
  }
}

TEST(ChainUnfolderTest, WordsThatAreSpelledComputeTheirDefinition) {
  constexpr uint32_t kSeed = 11;
  std::mt19937 random(kSeed);
  for (int bits = 0; bits < 18; ++bits) {
    const Shape4 shape = {.tokens = true,
                          .layers = 1 + bits / 6,
                          .directions = bits % 2 != 0 ? 2
                                        : bits < 9    ? 1
                                                      : kBackwardAlone,
                          .head = static_cast<Head>(bits / 2 % 3),
                          .embedding = true,
                          .characters = true};
    SCOPED_TRACE(fmt::format("shape {}, seed {}", bits, kSeed));
    for (int again = 0; again < 5; ++again) {
      CheckAgainstDefinition(shape, {1}, false, random);
      CheckAgainstDefinition(shape, {12}, false, random);
      CheckAgainstDefinition(shape, {3, 1, 12, 2, 1}, true, random);
    }
  }
}

// Whatever it asks for: heads of which nobody asks anything are not made, nor counted.
TEST(ChainUnfolderTest, AMessageIsRefusedForItsSizeWhenItsGraphIsTooLarge) {
  std::mt19937 random(13);
  for (int bits = 0; bits < 3 * 32; ++bits) {
    const auto head = static_cast<Head>(bits % 3);
    const bool tokens = (bits / 3 & 1) != 0, embedding = (bits / 3 & 3) == 3;
    const bool characters = (bits / 3 & 7) == 7, second = (bits / 3 & 8) != 0;
    const bool many = (bits / 3 & 16) != 0;
    const ModelOfHashes m(tokens, second ? 2 : 1, second ? 2 : 1, head, embedding, characters);
    const std::vector<int32_t> lengths = {1, 1 + static_cast<int32_t>(random() % 9)};
    const auto steps = static_cast<size_t>(lengths[0] + lengths[1]);
    const std::vector<int32_t> ids(steps, 1), counts(steps, many ? 2 : 0);
    const std::vector<int32_t> spelled(2 * steps, 3);
    const std::vector<float> vectors(steps, 1);
    const auto length = static_cast<int64_t>(steps);
    for (const std::vector<std::string_view>& outputs :
         {std::vector<std::string_view>{}, {kAllHidden}, {kFinalH, kOutput}, {kFinalC}}) {
      RequestInput input;
      input.outputs = outputs;
      input.tensors = {tokens ? Tensor("TOKENS", WireType::kInt32, {length}, ids)
                              : Tensor("X", WireType::kFp32, {length, 1}, vectors)};
      if (many) input.tensors.push_back(Tensor("LENGTHS", WireType::kInt32, {2}, lengths));
      if (characters && many) {
        input.tensors.push_back(Tensor("CHAR_LENGTHS", WireType::kInt32, {length}, counts));
        input.tensors.push_back(Tensor("CHAR_IDS", WireType::kInt32, {2 * length}, spelled));
      }
      SCOPED_TRACE(fmt::format("shape {}, outputs {}", bits, fmt::join(outputs, " ")));
      ExpectTakenByItsSizeAlone([&](int64_t most, CellGraph& graph) {
        ChainSpec spec = m.spec();
        spec.max_nodes = most;
        return (*ChainUnfolder::Create(spec, m.model()))->Unfold(input, graph);
      });
    }
  }
}

// "a b RARE c": two words are there at once, and their chain must not wait for the third's characters.
TEST(ChainUnfolderTest, OnlyWhatFollowsASpelledWordWaitsForItsCharacters) {
  const ModelOfHashes m(true, 1, 2, Head::kEveryStep, true, true);
  auto unfolder = ChainUnfolder::Create(m.spec(), m.model());
  ASSERT_TRUE(unfolder.ok()) << unfolder.status();
  const std::vector<int32_t> tokens = {1, 2, 0, 3}, lengths = {0, 0, 5, 0}, ids = {1, 2, 3, 4, 5};
  RequestInput input;
  input.tensors = {Tensor("TOKENS", WireType::kInt32, {4}, tokens),
                   Tensor("CHAR_LENGTHS", WireType::kInt32, {4}, lengths),
                   Tensor("CHAR_IDS", WireType::kInt32, {5}, ids)};
  CellGraph graph;
  ASSERT_TRUE((*unfolder)->Unfold(input, graph).ok());
  ASSERT_TRUE(graph.Seal(m.model(), 1).ok());
  // Nodes before the first of each segment on its longest path, by the order of time.
  std::vector<std::pair<int32_t, int32_t>> forward, backward;  // length, depth
  for (const Subgraph& s : graph.subgraphs()) {
    if (s.type == m.spec().layers[0].forward) forward.emplace_back(s.length, s.depth);
    if (s.type == m.spec().layers[0].backward) backward.emplace_back(s.length, s.depth);
  }
  using Segments = std::vector<std::pair<int32_t, int32_t>>;
  EXPECT_EQ(forward, (Segments{{2, 1}, {1, 6}, {1, 7}}))
      << "after one lookup; 5 characters, 1 word";
  EXPECT_EQ(backward, (Segments{{1, 1}, {1, 6}, {2, 7}}));
}

TEST(ChainUnfolderTest, AMessageHasAsManyNodesAsTheModelTakes) {
  const ModelOfHashes m(true, 1, 2, Head::kEveryStep, true, true);
  const std::vector<int32_t> tokens = {1, 2, 0, 3}, lengths = {0, 0, 5, 0}, ids = {1, 2, 3, 4, 5};
  RequestInput input;
  input.tensors = {Tensor("TOKENS", WireType::kInt32, {4}, tokens),
                   Tensor("CHAR_LENGTHS", WireType::kInt32, {4}, lengths),
                   Tensor("CHAR_IDS", WireType::kInt32, {5}, ids)};
  for (const int64_t most : {26, 25}) {  // 3 looked up, 10 + 1 spell, 8 in the layer, 4 labelled
    ChainSpec spec = m.spec();
    spec.max_nodes = most;
    auto unfolder = ChainUnfolder::Create(spec, m.model());
    ASSERT_TRUE(unfolder.ok()) << unfolder.status();
    CellGraph graph;
    const absl::Status s = (*unfolder)->Unfold(input, graph);
    EXPECT_EQ(s.ok(), most == 26);
    if (s.ok()) {
      ASSERT_TRUE(graph.Seal(m.model(), 1).ok());
      EXPECT_EQ(graph.num_nodes(), 26);
    } else {
      EXPECT_EQ(std::string(s.message()),
                "input TOKENS: the message makes 26 nodes of 4 steps, the model takes 25");
    }
  }
}

TEST(ChainUnfolderTest, AChainOfWhichOnlyTheEndIsReadNeedsTwoRows) {
  const ModelOfHashes m(true, 2, 1, Head::kEnd, false);
  auto unfolder = ChainUnfolder::Create(m.spec(), m.model());
  ASSERT_TRUE(unfolder.ok()) << unfolder.status();
  const std::vector<int32_t> tokens(10, 3);
  RequestInput input;
  input.tensors.push_back(Tensor("TOKENS", WireType::kInt32, {10}, tokens));
  CellGraph graph;
  ASSERT_TRUE((*unfolder)->Unfold(input, graph).ok());
  ASSERT_TRUE(graph.Seal(m.model(), 1).ok());
  EXPECT_EQ(std::vector<int32_t>(graph.row_counts().begin(), graph.row_counts().end()),
            (std::vector<int32_t>{10, 10, 2, 1}));
  ASSERT_EQ(graph.tensors().size(), 1u) << "nothing named: OUTPUT alone";
  EXPECT_EQ(graph.tensors()[0].name, "OUTPUT");
}

class BadRequestTest : public ::testing::Test {
 protected:
  // The message for a request to a model over tokens (or vectors).
  std::string ErrorOf(const RequestInput& input, bool tokens = true) {
    const ModelOfHashes m(tokens, 1, 1, Head::kNone, false);
    auto unfolder = ChainUnfolder::Create(m.spec(), m.model());
    EXPECT_TRUE(unfolder.ok()) << unfolder.status();
    CellGraph graph;
    const absl::Status s = (*unfolder)->Unfold(input, graph);
    if (s.ok()) return "accepted";
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
    return std::string(s.message());
  }
  std::string ErrorOfTokens(const std::vector<int32_t>& tokens) {
    RequestInput input;
    input.tensors.push_back(
        Tensor("TOKENS", WireType::kInt32, {static_cast<int64_t>(tokens.size())}, tokens));
    return ErrorOf(input);
  }
  std::string ErrorOfLengths(const std::vector<int32_t>& lengths) {
    const std::vector<int32_t> tokens(20, 1);
    RequestInput input;
    input.tensors.push_back(Tensor("TOKENS", WireType::kInt32, {20}, tokens));
    input.tensors.push_back(
        Tensor("LENGTHS", WireType::kInt32, {static_cast<int64_t>(lengths.size())}, lengths));
    return ErrorOf(input);
  }
};

TEST_F(BadRequestTest, TokensOutsideTheVocabularyAreNamedWithTheirPlace) {
  EXPECT_EQ(ErrorOfTokens({0, 49}), "accepted");
  EXPECT_EQ(ErrorOfTokens({0, 50}), "input TOKENS: token 1 is 50, the vocabulary ends at 49");
  EXPECT_EQ(ErrorOfTokens({-1}), "input TOKENS: token 0 is -1, the vocabulary ends at 49");
  EXPECT_THAT(ErrorOfTokens({5, INT32_MIN}), HasSubstr("token 1 is -2147483648"));
}

TEST_F(BadRequestTest, LengthsMustBeOfTheSequenceAndWithinTheLimit) {
  EXPECT_THAT(ErrorOfTokens({}), HasSubstr("shape [0], expected [-1]"));
  EXPECT_EQ(ErrorOfTokens(std::vector<int32_t>(13, 1)),
            "input TOKENS: length 13, the model takes 12");
  EXPECT_EQ(ErrorOfLengths({12, 8}), "accepted");
  EXPECT_EQ(ErrorOfLengths({12, 0, 8}), "input LENGTHS: length 1 is 0, the least is 1");
  EXPECT_EQ(ErrorOfLengths({12, -8}), "input LENGTHS: length 1 is -8, the least is 1");
  EXPECT_EQ(ErrorOfLengths({13, 7}), "input LENGTHS: length 0 is 13, the model takes 12");
  EXPECT_EQ(ErrorOfLengths({12, 7}), "input LENGTHS: the lengths add up to 19, TOKENS has 20");
  EXPECT_EQ(ErrorOfLengths({12, 9}), "input LENGTHS: lengths 0 to 1 add up to 21, TOKENS has 20");
  EXPECT_THAT(ErrorOfLengths({}), HasSubstr("shape [0], expected [-1]"));
  EXPECT_THAT(ErrorOfLengths({INT32_MAX, INT32_MAX}), HasSubstr("length 0 is 2147483647"));
}

TEST_F(BadRequestTest, TensorsMustHaveTheFormTheModelTakes) {
  const std::vector<float> x(12, 0.5f);
  const std::vector<int32_t> tokens(12, 1);
  RequestInput input;
  EXPECT_EQ(ErrorOf(input), "input TOKENS: missing");
  EXPECT_EQ(ErrorOf(input, false), "input X: missing");
  input.tensors = {Tensor("X", WireType::kFp32, {6, 2}, x)};
  EXPECT_THAT(ErrorOf(input), HasSubstr("input X: the model has no such input"));
  EXPECT_EQ(ErrorOf(input, false), "input X: shape [6, 2], expected [-1, 1]");
  input.tensors = {Tensor("X", WireType::kFp32, {12}, x)};
  EXPECT_EQ(ErrorOf(input, false), "input X: 1 dimensions, expected 2");
  input.tensors = {Tensor("X", WireType::kFp32, {11, 1}, x)};
  EXPECT_EQ(ErrorOf(input, false), "input X: 48 bytes, shape [11, 1] takes 44");
  input.tensors = {Tensor("X", WireType::kFp32, {int64_t{1} << 33, int64_t{1} << 33}, x)};
  EXPECT_THAT(ErrorOf(input, false), HasSubstr("too large"));
  input.tensors = {Tensor("TOKENS", WireType::kInt64, {6}, tokens)};
  EXPECT_EQ(ErrorOf(input), "input TOKENS: datatype INT64, expected INT32");
  input.tensors = {Tensor("TOKENS", WireType::kInt32, {12}, tokens)};
  input.outputs = {"OUTPUT", "LOGITS"};
  EXPECT_EQ(ErrorOf(input), "output LOGITS: the model has no such output");
  input.outputs = {"OUTPUT", "OUTPUT"};
  EXPECT_EQ(ErrorOf(input), "output OUTPUT: asked for twice");
}

TEST_F(BadRequestTest, StatesComeWholeAndHaveARowForEveryChain) {
  const std::vector<float> x(12, 0.5f);
  const auto error = [&](std::vector<InputTensor> more) {
    RequestInput input;
    input.tensors = {Tensor("X", WireType::kFp32, {12, 1}, x)};
    input.tensors.insert(input.tensors.end(), more.begin(), more.end());
    return ErrorOf(input, false);
  };
  const auto part = [&](std::string_view name, TensorDims dims) {
    const std::vector<float>& values = x;
    InputTensor tensor = Tensor(name, WireType::kFp32, std::move(dims), values);
    int64_t bytes = sizeof(float);
    for (const int64_t dim : tensor.dims) bytes *= dim;
    tensor.bytes = tensor.bytes.first(static_cast<size_t>(bytes));
    return tensor;
  };
  EXPECT_EQ(error({part("INITIAL_H", {1, 1}), part("INITIAL_C", {1, 1})}), "accepted");
  EXPECT_EQ(error({part("INITIAL_H", {1, 1})}),
            "input INITIAL_C: missing: a state is brought whole");
  EXPECT_EQ(error({part("INITIAL_C", {1, 1})}),
            "input INITIAL_H: missing: a state is brought whole");
  EXPECT_EQ(error({part("INITIAL_H", {1, 1}), part("INITIAL_C", {2, 1})}),
            "input INITIAL_C: shape [2, 1], expected [1, 1]");
  EXPECT_EQ(error({part("INITIAL_H", {1, 1, 1}), part("INITIAL_C", {1, 1})}),
            "input INITIAL_H: 3 dimensions, expected 2");
  const std::vector<int32_t> lengths = {8, 4};
  const InputTensor two = Tensor("LENGTHS", WireType::kInt32, {2}, lengths);
  EXPECT_EQ(error({two, part("INITIAL_H", {2, 1, 1}), part("INITIAL_C", {2, 1, 1})}), "accepted");
  EXPECT_EQ(error({two, part("INITIAL_H", {1, 1, 1}), part("INITIAL_C", {2, 1, 1})}),
            "input INITIAL_H: shape [1, 1, 1], expected [2, 1, 1]");
  EXPECT_THAT(error({part("INITIAL_X", {1, 1})}),
              HasSubstr("it takes X, LENGTHS, INITIAL_H, INITIAL_C"));
}

// What a step carries beside h and c is a part of the state, too; where a part has no tensor, none can be brought.
TEST(ChainUnfolderTest, EveryColumnThatAStepCarriesIsAPartOfTheState) {
  const auto names = [](const std::vector<std::vector<Column>>& layers) {
    const ModelOfHashes m(layers);
    const auto unfolder = ChainUnfolder::Create(m.spec(), m.model());
    EXPECT_TRUE(unfolder.ok()) << unfolder.status();
    const Signature signature = (*unfolder)->MakeSignature();
    std::vector<std::string> found;
    for (const TensorSpec& input : signature.inputs) {
      if (input.one_a_sequence) found.push_back(input.name);
    }
    for (const TensorSpec& output : signature.outputs) {
      if (output.name.starts_with("FINAL_")) found.push_back(output.name);
    }
    for (const StateTensor& part : signature.state) found.push_back(part.initial + "=" + part.left);
    return found;
  };
  const Column h = {"h", ElementType::kFp32, 1}, c = {"c", ElementType::kFp32, 1};
  const Column m = {"m", ElementType::kFp32, 1}, big = {"M", ElementType::kFp32, 1};
  using ::testing::ElementsAre;
  EXPECT_THAT(names({{h}}), ElementsAre("INITIAL_H", "FINAL_H", "INITIAL_H=FINAL_H"));
  EXPECT_THAT(names({{c, m, h}, {m, h, c}}),
              ElementsAre("INITIAL_H", "INITIAL_C", "INITIAL_M", "FINAL_H", "FINAL_C", "FINAL_M",
                          "INITIAL_H=FINAL_H", "INITIAL_C=FINAL_C", "INITIAL_M=FINAL_M"));
  EXPECT_THAT(names({{h, c}, {h}}), ElementsAre("FINAL_H")) << "layers of two kinds";
  EXPECT_THAT(names({{h, m, big}}), ElementsAre("FINAL_H", "FINAL_M")) << "two of one name";
}

TEST(ChainUnfolderTest, CellsThatDoNotFitTheChainAreNamed) {
  const ModelOfHashes m(true, 2, 2, Head::kEnd, false);
  const auto error = [&](auto change) {
    ChainSpec spec = m.spec();
    change(spec);
    auto unfolder = ChainUnfolder::Create(spec, m.model());
    return unfolder.ok() ? "accepted" : std::string(unfolder.status().message());
  };
  EXPECT_EQ(error([](ChainSpec&) {}), "accepted");
  EXPECT_THAT(error([](ChainSpec& s) { s.layers.clear(); }), HasSubstr("0 layers"));
  EXPECT_THAT(error([](ChainSpec& s) { s.layers[0].backward = {}; }),
              HasSubstr("cell type \"l1d0\" has 2 inputs beside what it carries, below it are 1"));
  EXPECT_THAT(error([](ChainSpec& s) { std::swap(s.layers[0].forward, s.layers[0].backward); }),
              HasSubstr("input \"forward\" reads table 1, below it is table 2"));
  EXPECT_THAT(error([](ChainSpec& s) { s.layers[0].forward = s.head; }),
              HasSubstr("\"head\" carries nothing"));
  EXPECT_THAT(error([](ChainSpec& s) { s.head = s.layers[0].forward; }), HasSubstr("is a chain"));
  EXPECT_THAT(error([](ChainSpec& s) { s.token_head = s.head; }), HasSubstr("one of them"));
  EXPECT_THAT(error([](ChainSpec& s) { s.vocabulary_size = 0; }), HasSubstr("vocabulary of 0"));
  EXPECT_THAT(error([](ChainSpec& s) { s.max_sequence_length = 0; }), HasSubstr("is 0"));
  EXPECT_THAT(error([](ChainSpec& s) { s.input = TableId(1); }), HasSubstr("has 2 columns"));
  EXPECT_THAT(error([](ChainSpec& s) { s.layers[1].forward = CellTypeId(99); }),
              HasSubstr("cell type 99 of 5"));
}

std::string CreateError(const ChainSpec& spec, const Model& model) {
  const auto unfolder = ChainUnfolder::Create(spec, model);
  return unfolder.ok() ? "accepted" : std::string(unfolder.status().message());
}

TEST(ChainUnfolderTest, WhatIsReadAndLeftMustBeWhatAChainReadsAndLeaves) {
  const ModelOfHashes deep(true, 64, 1, Head::kNone, false),
      deeper(true, 65, 1, Head::kNone, false);
  EXPECT_EQ(CreateError(deep.spec(), deep.model()), "accepted");
  EXPECT_THAT(CreateError(deeper.spec(), deeper.model()),
              HasSubstr("65 layers, allowed are 1 to 64"));
  const ModelOfHashes blind({{{"c", ElementType::kFp32, 1}}});
  EXPECT_THAT(CreateError(blind.spec(), blind.model()),
              HasSubstr("\"l0\" leaves no FP32 column \"h\", but {c FP32[1]}"));
  const ModelOfHashes m(true, 1, 1, Head::kNone, true);
  Model wide = m.model();
  wide.tables[0].columns[0].width = 2;
  EXPECT_THAT(CreateError(m.spec(), wide),
              HasSubstr("tokens of width 2 out of a vocabulary of 50"));
  ChainSpec spec = m.spec();
  spec.embedding = spec.layers[0].forward;
  EXPECT_THAT(CreateError(spec, m.model()), HasSubstr("embedding \"l0d0\" is a chain"));
}

TEST(ChainUnfolderTest, PartsThatSpellWordsMustFit) {
  const ModelOfHashes m(true, 1, 2, Head::kEnd, true, true);
  const auto error = [&](auto change) {
    ChainSpec spec = m.spec();
    change(spec.characters);
    return CreateError(spec, m.model());
  };
  EXPECT_THAT(error([](CharacterSpec& c) { c.vocabulary_size = 0; }),
              HasSubstr("out of 0: numbers"));
  EXPECT_THAT(error([](CharacterSpec& c) { c.input = TableId(99); }),
              HasSubstr("characters are table"));
  EXPECT_THAT(error([](CharacterSpec& c) { c.input = TableId(1); }),
              HasSubstr("characters are table"));
  EXPECT_THAT(error([](CharacterSpec& c) { c.word = c.forward; }),
              HasSubstr("\"spell0\", which makes a word of characters, is a chain"));
  EXPECT_THAT(error([](CharacterSpec& c) { c.backward = c.word; }),
              HasSubstr("\"word\" carries nothing"));
  EXPECT_THAT(error([](CharacterSpec& c) { std::swap(c.forward, c.backward); }),
              HasSubstr("\"word\": input \"forward\" reads table"));
  const ModelOfHashes numbers(true, 1, 1, Head::kNone, false, true);
  EXPECT_THAT(CreateError(numbers.spec(), numbers.model()),
              HasSubstr("words are spelled in the embedding's place, and there is none"));
}

// (optional) in brackets.
std::vector<std::string> Inputs(const ChainSpec& spec, const Model& model) {
  const auto unfolder = ChainUnfolder::Create(spec, model);
  EXPECT_TRUE(unfolder.ok()) << unfolder.status();
  std::vector<std::string> names;
  for (const TensorSpec& t : (*unfolder)->MakeSignature().inputs) {
    if (t.one_a_sequence) continue;
    names.push_back(t.optional ? "(" + t.name + ")" : t.name);
  }
  return names;
}

TEST(ChainUnfolderTest, WhereWordsComeInOtherWaysTokensMayBeLeftOut) {
  using ::testing::ElementsAre;
  const ModelOfHashes tokens(true, 1, 1, Head::kNone, true),
      vectors(false, 1, 1, Head::kNone, false);
  const ModelOfHashes spelled(true, 1, 1, Head::kNone, true, true);
  EXPECT_THAT(Inputs(tokens.spec(), tokens.model()), ElementsAre("TOKENS", "(LENGTHS)"));
  EXPECT_THAT(Inputs(spelled.spec(), spelled.model()),
              ElementsAre("(TOKENS)", "(LENGTHS)", "(CHAR_IDS)", "(CHAR_LENGTHS)"));
  ChainSpec text = tokens.spec(), rows = vectors.spec();
  text.words = rows.words = *Vocabulary::Create("a\nb\n");
  EXPECT_THAT(Inputs(text, tokens.model()), ElementsAre("(TOKENS)", "(LENGTHS)", "(WORDS_TEXT)"));
  EXPECT_THAT(Inputs(rows, vectors.model()), ElementsAre("X", "(LENGTHS)"));
}

TEST(ChainUnfolderTest, LabelsNameWhatATokenHeadLeaves) {
  const ModelOfHashes m(true, 1, 2, Head::kEveryStep, false);
  ChainSpec spec = m.spec();
  spec.labels = *Vocabulary::Create("O\nI\n");
  EXPECT_THAT(CreateError(spec, m.model()), HasSubstr("2 labels, token_head leaves 1 numbers"));
  spec.labels = *Vocabulary::Create("O\n");
  EXPECT_THAT(CreateError(spec, m.model()),
              HasSubstr("token_head \"head\" leaves no INT32 column \"label\""));
  spec.token_head = {};
  EXPECT_THAT(CreateError(spec, m.model()), HasSubstr("labels are for a token_head"));
}

}  // namespace
}  // namespace cellbatch
