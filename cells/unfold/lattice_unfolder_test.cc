// Answers are computed by the graph interpreter and compared with the equations, written out in
// tests/testing/lattice_model.cc.
#include "cells/unfold/lattice_unfolder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

#include "cells/kernels/reference/graph_interpreter.h"
#include "cells/unfold/size_bound.h"
#include "tests/testing/builders.h"
#include "tests/testing/lattice_model.h"

namespace cellbatch {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LatticeModel;
using testing::LatticeModelSpec;
using testing::LatticeRequest;
using ::testing::Pointwise;
using testing::RandomLattice;

using Values = std::vector<std::vector<double>>;

const std::vector<std::string_view> kEverything = {"NODE_OUTPUTS", "ALL_HIDDEN", "OUTPUT",
                                                   "FINAL_H", "FINAL_C"};

Values Answers(const LatticeModel& lattices, const LatticeRequest& request,
               std::vector<std::string_view> outputs = kEverything) {
  return InterpretGraph(*lattices.model(), lattices.Graph(request, std::move(outputs)));
}

std::vector<double> Last(const std::vector<double>& rows, size_t width) {
  return {rows.end() - static_cast<std::ptrdiff_t>(width), rows.end()};
}

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected) {
  EXPECT_THAT(actual, Pointwise(DoubleNear(1e-9), expected));
}

// The picture in lattice_unfolder.h; and what each kind of subgraph is.
const LatticeRequest kPicture = {
    .chars = {7, 0, 19, 3, 3}, .words = {2, 4, 5, 0, 2, 29, 1, 4, 0}, .lengths = {}};

struct Shape {
  std::string type;
  int32_t length;
  int32_t links;
  friend bool operator==(const Shape&, const Shape&) = default;
};
void PrintTo(const Shape& s, std::ostream* out) { *out << s.type << s.length << "/" << s.links; }

std::vector<Shape> Shapes(const LatticeModel& lattices, const CellGraph& graph) {
  const LatticeSpec& spec = lattices.spec();
  std::vector<Shape> shapes;
  for (const Subgraph& s : graph.subgraphs()) {
    const std::string name = !s.type.valid()          ? "rows"
                             : s.type == spec.word    ? "word"
                             : s.type == spec.merge   ? "merge"
                             : s.type == spec.initial ? "initial"
                             : s.type == spec.output  ? "output"
                                                      : "chars";
    shapes.push_back({name, s.length, s.num_links});
  }
  return shapes;
}

TEST(LatticeUnfolderTest, CharactersAreCutIntoChainsWhereWordsStartOrEnd) {
  const LatticeModel lattices({});
  EXPECT_THAT(Shapes(lattices, lattices.Graph(kPicture)),
              ElementsAre(Shape{"rows", 5, 0}, Shape{"rows", 3, 0}, Shape{"initial", 1, 0},
                          Shape{"chars", 1, 2}, Shape{"chars", 1, 2}, Shape{"word", 1, 2},
                          Shape{"merge", 1, 2}, Shape{"chars", 2, 2}, Shape{"word", 1, 2},
                          Shape{"word", 1, 2}, Shape{"merge", 1, 3}, Shape{"chars", 1, 2},
                          Shape{"output", 1, 1}));
  const LatticeModel bare({.initial = false, .output = false, .chains = false});
  EXPECT_THAT(Shapes(bare, bare.Graph({{1, 2, 3}, {}, {}})),
              ElementsAre(Shape{"rows", 3, 0}, Shape{"chars", 1, 2}, Shape{"chars", 1, 2},
                          Shape{"chars", 1, 2}));
}

TEST(LatticeUnfolderTest, ArcsAndSumsArePlacedWhereTheirLastCharacterStandsAndOutputsComeLater) {
  const LatticeModel lattices({});
  LatticeRequest two = kPicture;
  two.chars.insert(two.chars.begin(), {1, 2, 3});
  for (size_t w = 0; w < two.words.size(); w += 3) {
    two.words[w] += 3;
    two.words[w + 1] += 3;
  }
  two.lengths = {3, 5};
  const CellGraph graph = lattices.Graph(two);
  std::vector<int32_t> places, phases;
  for (const Subgraph& s : graph.subgraphs()) {
    if (s.type == lattices.spec().initial || !s.type.valid()) continue;
    places.push_back(s.place);
    phases.push_back(s.phase);
  }
  // "c c c", output | c, c, [0,2), sum, c c, [1,4), [2,4), sum, c, output
  EXPECT_THAT(places, ElementsAre(0, -1, 0, 1, 1, 1, 2, 3, 3, 3, 4, -1));
  EXPECT_THAT(phases, ElementsAre(0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1));
}

TEST(LatticeUnfolderTest, SumsAddTheCharactersArcThenWordsByStartAndId) {
  const LatticeModel lattices({});
  // Into state 4: [0, 4) 9, [2, 4) 3, [2, 4) 8, in another order.
  const CellGraph graph =
      lattices.Graph({{1, 2, 3, 4}, {2, 4, 8, 0, 4, 9, 2, 4, 3}, {}}, {"OUTPUT"});
  std::vector<int32_t> ids;
  for (const Subgraph& s : graph.subgraphs()) {
    if (s.type != lattices.spec().merge) continue;
    EXPECT_EQ(s.num_links, 4);
    for (int32_t l = 0; l < s.num_links; ++l) {
      const SubgraphId from = graph.links()[static_cast<size_t>(s.first_link + l)].from;
      const Subgraph& arc = graph.subgraphs()[static_cast<size_t>(from.value())];
      const Link& id = graph.links()[static_cast<size_t>(arc.first_link)];
      const auto* rows = reinterpret_cast<const int32_t*>(
          graph.subgraphs()[static_cast<size_t>(id.from.value())].data);
      ids.push_back(arc.type == lattices.spec().word ? rows[id.first] : -1);
    }
  }
  EXPECT_THAT(ids, ElementsAre(-1, 9, 3, 8));
}

class LatticeEquationsTest : public ::testing::TestWithParam<LatticeModelSpec> {};

TEST_P(LatticeEquationsTest, RandomLatticesGetWhatTheEquationsSay) {
  const LatticeModel lattices(GetParam());
  const auto units = static_cast<size_t>(GetParam().hidden);
  std::mt19937_64 random(11);
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    const LatticeRequest request = i == 0 ? kPicture : RandomLattice(random, 40);
    const LatticeModel::Answers expected = lattices.Reference(request);
    if (GetParam().output) {
      const Values answers = Answers(lattices, request);
      ExpectNear(answers[0], expected.y);
      ExpectNear(answers[1], expected.h);
      ExpectNear(answers[2], Last(expected.y, 2));
      ExpectNear(answers[3], Last(expected.h, units));
      ExpectNear(answers[4], Last(expected.c, units));
      // What is asked for beside it changes nothing, and neither does silence.
      ExpectNear(Answers(lattices, request, {})[0], Last(expected.y, 2));
    } else {
      const Values answers = Answers(lattices, request, {"ALL_HIDDEN", "OUTPUT"});
      ExpectNear(answers[0], expected.h);
      ExpectNear(answers[1], Last(expected.h, units));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, LatticeEquationsTest,
    ::testing::Values(LatticeModelSpec{}, LatticeModelSpec{.initial = false},
                      LatticeModelSpec{.output = false}, LatticeModelSpec{.chains = false},
                      LatticeModelSpec{.initial = false, .output = false, .chains = false}),
    [](const auto& info) { return "Model" + std::to_string(info.index); });

TEST(LatticeUnfolderTest, TheOrderOfWordsChangesNoBit) {
  const LatticeModel lattices({});
  std::mt19937_64 random(5);
  for (int i = 0; i < 30; ++i) {
    LatticeRequest request = RandomLattice(random, 30);
    if (request.words.empty()) continue;
    const Values before = Answers(lattices, request);
    std::vector<std::array<int32_t, 3>> words(request.words.size() / 3);
    std::memcpy(words.data(), request.words.data(), request.words.size() * sizeof(int32_t));
    std::shuffle(words.begin(), words.end(), random);
    std::memcpy(request.words.data(), words.data(), request.words.size() * sizeof(int32_t));
    EXPECT_EQ(Answers(lattices, request), before);
  }
}

TEST(LatticeUnfolderTest, SeveralInOneMessageAreEachByItself) {
  const LatticeModel lattices({});
  std::mt19937_64 random(6);
  LatticeRequest together;
  Values apart(kEverything.size());
  for (int i = 0; i < 12; ++i) {
    const LatticeRequest one = RandomLattice(random, 20);
    const Values answers = Answers(lattices, one);
    for (size_t t = 0; t < apart.size(); ++t) {
      apart[t].insert(apart[t].end(), answers[t].begin(), answers[t].end());
    }
    const auto offset = static_cast<int32_t>(together.chars.size());
    for (size_t w = 0; w < one.words.size(); ++w) {
      together.words.push_back(one.words[w] + (w % 3 < 2 ? offset : 0));
    }
    together.chars.insert(together.chars.end(), one.chars.begin(), one.chars.end());
    together.lengths.push_back(static_cast<int32_t>(one.chars.size()));
  }
  EXPECT_EQ(Answers(lattices, together), apart);
  const CellGraph graph = lattices.Graph(together, {"OUTPUT", "ALL_HIDDEN"});
  EXPECT_THAT(graph.tensors()[0].dims, ElementsAre(12, 2));
  EXPECT_THAT(graph.tensors()[1].dims, ElementsAre(static_cast<int64_t>(together.chars.size()), 4));
}

TEST(LatticeUnfolderTest, UnknownIdsAreReplacedWhereTheModelSaysSo) {
  const LatticeModel lattices({});
  LatticeSpec spec = lattices.spec();
  spec.known_characters = {20, 1};
  spec.known_words = {30, 2};
  const auto unfolder = LatticeUnfolder::Create(spec, *lattices.model());
  ASSERT_TRUE(unfolder.ok()) << unfolder.status();
  const auto unfolded = [&](const LatticeRequest& request) {
    CellGraph graph;
    EXPECT_EQ((*unfolder)->Unfold(request.Input(kEverything), graph), absl::OkStatus());
    EXPECT_EQ(graph.Seal(*lattices.model(), 2), absl::OkStatus());
    return graph;
  };
  const auto answers = [&](const LatticeRequest& request) {
    return InterpretGraph(*lattices.model(), unfolded(request));
  };
  EXPECT_EQ(answers({{5, 99, -1}, {0, 2, 30, 0, 3, 7}, {}}),
            answers({{5, 1, 1}, {0, 2, 2, 0, 3, 7}, {}}));
  // Two senses of one word, neither of them known, are two words; one sent twice is not.
  const LatticeRequest senses = {{5, 1, 1}, {0, 2, 31, 0, 2, 2, 0, 2, 30}, {}};
  LatticeRequest twice = senses;
  twice.words[2] = 30;
  EXPECT_EQ(unfolded(senses).num_nodes(), 3 + 3 + 1 + 1 + 3) << "three words and their sum";
  CellGraph graph;
  EXPECT_EQ((*unfolder)->Unfold(twice.Input(), graph).message(),
            "input WORDS: word 2 is [0, 2) with id 30, as word 0 is");
}

TEST(LatticeUnfolderTest, ALongLatticeIsNoDeeperThanAShortOne) {
  const LatticeModel lattices({.max_characters = 100'000, .max_nodes = 1'000'000});
  LatticeRequest request;
  for (int32_t i = 0; i < 100'000; ++i) {
    request.chars.push_back(i % 20);
    if (i % 3 == 0 && i + 2 <= 100'000) {
      request.words.insert(request.words.end(), {i, i + 2, i % 30});
    }
  }
  const CellGraph graph = lattices.Graph(request, {"OUTPUT"});
  EXPECT_GT(graph.num_nodes(), 150'000);
  const Values answers = InterpretGraph(*lattices.model(), graph);
  ExpectNear(answers[0], Last(lattices.Reference(request).y, 2));
}

class LatticeErrorTest : public ::testing::Test {
 protected:
  std::string Error(const LatticeRequest& request, std::vector<std::string_view> outputs = {}) {
    return Error(request.Input(std::move(outputs)));
  }
  std::string Error(const RequestInput& input) {
    CellGraph graph;
    const absl::Status status = lattices.unfolder().Unfold(input, graph);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }
  std::string WordError(const std::vector<int32_t>& words) { return Error({{1, 2, 3}, words, {}}); }

  const LatticeModel lattices{LatticeModelSpec{}};
};

TEST_F(LatticeErrorTest, WordsNameTheirRowAndBothValues) {
  const int32_t most = std::numeric_limits<int32_t>::max();
  const int32_t least = std::numeric_limits<int32_t>::min();
  EXPECT_THAT(WordError({0, 1, 1, 2, 2, 1}),
              HasSubstr("input WORDS: word 1 is [2, 2): 0 <= start < end <= 3 is needed"));
  EXPECT_THAT(WordError({2, 1, 1}), HasSubstr("word 0 is [2, 1)"));
  EXPECT_THAT(WordError({-1, 1, 1}), HasSubstr("word 0 is [-1, 1)"));
  EXPECT_THAT(WordError({0, 4, 1}), HasSubstr("word 0 is [0, 4)"));
  EXPECT_THAT(WordError({least, most, 1}), HasSubstr("word 0 is [-2147483648, 2147483647)"));
  EXPECT_THAT(WordError({0, 2, 30}), HasSubstr("word 0 has id 30, the vocabulary ends at 29"));
  EXPECT_THAT(WordError({0, 2, -1}), HasSubstr("word 0 has id -1"));
  EXPECT_THAT(WordError({0, 2, 4, 1, 2, 4, 0, 2, 4}),
              HasSubstr("word 2 is [0, 2) with id 4, as word 0 is"));
  EXPECT_THAT(Error({{1, 2, 3}, {1, 3, 1}, {2, 1}}),
              HasSubstr("word 0 is [1, 3): lattice 0 ends at 2"));
}

TEST_F(LatticeErrorTest, CharactersAndForms) {
  EXPECT_THAT(Error({{1, 20}, {}, {}}),
              HasSubstr("input CHARS: character 1 is 20, the vocabulary ends at 19"));
  EXPECT_THAT(Error({std::vector<int32_t>(401), {}, {}}),
              HasSubstr("input CHARS: length 401, the model takes 400"));
  EXPECT_THAT(Error({{1, 2}, {}, {3}}), HasSubstr("lengths 0 to 0 add up to 3, CHARS has 2"));
  EXPECT_THAT(Error({{1, 2}, {}, {}}, {"OUTPUT", "LOGITS"}), HasSubstr("output LOGITS"));
  EXPECT_THAT(Error(RequestInput{}), HasSubstr("input CHARS: missing"));
  const LatticeRequest request = {{1, 2}, {0, 2, 1}, {}};
  RequestInput input = request.Input();
  input.tensors[1].dims = {3};
  EXPECT_THAT(Error(input), HasSubstr("input WORDS: 1 dimensions, expected 2"));
  input.tensors[1].dims = {3, 1};
  EXPECT_THAT(Error(input), HasSubstr("input WORDS: shape [3, 1], expected [-1, 3]"));
  input.tensors[1].dims = {1, 3};
  input.tensors[1].type = WireType::kFp32;
  EXPECT_THAT(Error(input), HasSubstr("input WORDS: datatype FP32, expected INT32"));
  input.tensors[1].name = "TOKENS";
  EXPECT_THAT(Error(input), HasSubstr("input TOKENS: the model has no such input"));
}

TEST_F(LatticeErrorTest, TooManyWordsOrCellsNameTheBound) {
  LatticeRequest wide{std::vector<int32_t>(400, 1), {}, {}};
  for (int32_t start = 0; start < 300; ++start) {
    for (int32_t id = 0; id < 10; ++id) {
      wide.words.insert(wide.words.end(), {start, start + 1 + id % 4, id});
    }
  }
  EXPECT_THAT(Error(wide, {"NODE_OUTPUTS"}),
              HasSubstr("400 characters and 3000 words make 4104 cells, the model takes 4000"));
  LatticeRequest sum{std::vector<int32_t>(300, 1), {}, {}};
  for (int32_t i = 0; i < 4096; ++i) sum.words.insert(sum.words.end(), {i / 30, 300, i % 30});
  EXPECT_THAT(Error(sum), HasSubstr("4096 or more words end at 300, 4095 may"));
}

// 5 characters, 3 words, 2 sums, a beginning and an output: 12; with every output 4 more.
TEST(LatticeUnfolderTest, CellsAndArcsMayBeAsManyAsTheModelTakes) {
  for (const int64_t most : {12, 11}) {
    const LatticeModel lattices({.max_characters = 5, .max_nodes = most});
    CellGraph graph;
    const absl::Status status = lattices.unfolder().Unfold(kPicture.Input(), graph);
    EXPECT_EQ(status.ok(), most == 12) << status;
  }
  const LatticeModel lattices({.max_nodes = 16});
  EXPECT_EQ(lattices.Graph(kPicture, {"NODE_OUTPUTS"}).num_nodes(), 16);
  const LatticeModel wide({.max_nodes = 100'000});
  LatticeRequest sum{std::vector<int32_t>(300, 1), {}, {}};
  for (int32_t i = 0; i < kMaxSumLinks - 1; ++i) {
    sum.words.insert(sum.words.end(), {i / 30, 300, i % 30});
  }
  EXPECT_EQ(wide.Graph(sum).num_nodes(), 300 + 4095 + 1 + 1 + 1);
}

TEST(LatticeUnfolderTest, ARequestIsRefusedForItsSizeWhenItsGraphIsTooLarge) {
  std::mt19937_64 random(14);
  for (int bits = 0; bits < 8; ++bits) {
    const LatticeModel lattices(
        {.initial = (bits & 1) != 0, .output = (bits & 2) != 0, .chains = (bits & 4) != 0});
    std::vector<std::vector<std::string_view>> asked = {{}, {"ALL_HIDDEN"}, {"FINAL_C", "FINAL_H"}};
    if ((bits & 2) != 0) asked.insert(asked.end(), {{"NODE_OUTPUTS"}, {"NODE_OUTPUTS", "OUTPUT"}});
    for (int again = 0; again < 5; ++again) {
      const LatticeRequest request = testing::RandomLattice(random, 30);
      for (const auto& outputs : asked) {
        SCOPED_TRACE(fmt::format("model {}, outputs {}", bits, fmt::join(outputs, " ")));
        ExpectTakenByItsSizeAlone([&](int64_t most, CellGraph& graph) {
          LatticeSpec spec = lattices.spec();
          spec.max_nodes = most;
          return (*LatticeUnfolder::Create(spec, *lattices.model()))
              ->Unfold(request.Input(outputs), graph);
        });
      }
    }
  }
}

// One lattice, and the number of lattices said: a dimension more.
TEST(LatticeUnfolderTest, LengthsOfOneLatticeAreSeveralOfOne) {
  const LatticeModel lattices({});
  LatticeRequest one = kPicture;
  one.lengths = {5};
  EXPECT_EQ(Answers(lattices, one), Answers(lattices, kPicture));
  EXPECT_THAT(lattices.Graph(one).tensors()[0].dims, ElementsAre(1, 2));
  EXPECT_THAT(lattices.Graph(kPicture).tensors()[0].dims, ElementsAre(2));
}

TEST(LatticeUnfolderTest, WordsWithoutRowsAreAsNoWords) {
  const LatticeModel lattices({});
  const LatticeRequest bare{.chars = kPicture.chars, .words = {}, .lengths = {}};
  RequestInput input = bare.Input(kEverything);
  ASSERT_EQ(input.Find("WORDS"), nullptr);
  input.tensors.push_back({"WORDS", WireType::kInt32, {0, 3}, {}});
  CellGraph graph;
  ASSERT_EQ(lattices.unfolder().Unfold(input, graph), absl::OkStatus());
  ASSERT_EQ(graph.Seal(*lattices.model(), 2), absl::OkStatus());
  EXPECT_EQ(InterpretGraph(*lattices.model(), graph), Answers(lattices, bare));
}

TEST(LatticeCreateTest, CellsThatDoNotFitAreNamed) {
  const LatticeModel lattices({});
  const auto error = [&](auto change) {
    LatticeSpec spec = lattices.spec();
    change(spec);
    const auto made = LatticeUnfolder::Create(spec, *lattices.model());
    EXPECT_FALSE(made.ok());
    return std::string(made.status().message());
  };
  EXPECT_THAT(error([](LatticeSpec& s) { s.character = CellTypeId(9); }),
              HasSubstr("cell type 9 of 5"));
  EXPECT_THAT(error([](LatticeSpec& s) { s.merge = {}; }), HasSubstr("no cell that merges them"));
  EXPECT_THAT(error([](LatticeSpec& s) { s.merge = s.initial; }), HasSubstr("has 0 inputs"));
  EXPECT_THAT(error([](LatticeSpec& s) { s.initial = s.merge; }), HasSubstr("has 1 inputs"));
  EXPECT_THAT(error([](LatticeSpec& s) { s.output = s.merge; }), HasSubstr("has 1 inputs"));
  EXPECT_THAT(error([](LatticeSpec& s) { s.word = s.output; }),
              HasSubstr("input \"x\" reads of {h FP32[4], c FP32[4]}, the request brings {"));
  EXPECT_THAT(error([](LatticeSpec& s) { s.known_words.size = 0; }),
              HasSubstr("out of a vocabulary of 0"));
  EXPECT_THAT(error([](LatticeSpec& s) { s.characters = TableId(0); }),
              HasSubstr("is not one INT32 of 1"));
  EXPECT_THAT(error([](LatticeSpec& s) { s.max_nodes = 0; }), HasSubstr("0 cells"));
  EXPECT_THAT(error([](LatticeSpec& s) { s.max_characters = 0; }),
              HasSubstr("at most 0 characters"));
  EXPECT_THAT(error([](LatticeSpec& s) { s.word = {}; }), HasSubstr("and no words"));
  EXPECT_THAT(error([](LatticeSpec& s) { s.character = s.merge; }),
              HasSubstr("input \"arcs\" is a sum; it must read one node"));
  EXPECT_THAT(error([](LatticeSpec& s) { s.character = s.initial; }),
              HasSubstr("has 0 inputs, expected are \"before\" and one more"));
  EXPECT_THAT(error([](LatticeSpec& s) { s.merge = s.character; }), HasSubstr("has 2 inputs"));
  EXPECT_THAT(error([](LatticeSpec& s) { s.initial = s.output; }), HasSubstr("a state is {h"));
  EXPECT_THAT(error([](LatticeSpec& s) { s.known_characters.unknown = 20; }),
              HasSubstr("out of a vocabulary of 20, unknown ones as 20"));
  EXPECT_THAT(error([](LatticeSpec& s) { s.words = TableId(99); }),
              HasSubstr("words in table 99 of"));
  LatticeSpec bare = lattices.spec();
  bare.word = bare.merge = {};
  const auto made = LatticeUnfolder::Create(bare, *lattices.model());
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)->MakeSignature().inputs.size(), 2u) << "no WORDS";
  CellGraph graph;
  EXPECT_EQ((*made)->Unfold(kPicture.Input(), graph).message(),
            "input WORDS: the model has no words");
}

// A lattice of cells that a test writes: h = E[id] + before, the sum of arcs, y of a state.
struct Written {
  using Write = std::function<void(testing::CellBuilder&)>;

  static Write Arc(const std::string& before, const std::string& reads = "h",
                   const std::string& leaves = "h") {
    return [=](testing::CellBuilder& b) {
      const ValueId word = b.Read("x", "token", 1, ElementType::kInt32);
      b.Leave(leaves, b.Add(b.Lookup(b.Matrix("E", 9, 4), word), b.Read(before, reads, 4)));
    };
  }
  static Write Sum(const std::string& name, Arity arity = Arity::kSum) {
    return [=](testing::CellBuilder& b) {
      b.Leave("h", b.Tanh(b.Read(name, "h", 4, ElementType::kFp32, arity)));
    };
  }
  std::string Error() const {
    testing::ModelBuilder builder;
    const auto add = [&](const char* name, const Write& write) {
      testing::CellBuilder b(name);
      write(b);
      return builder.Add(b.Build(), 1);
    };
    LatticeSpec spec;
    spec.character = add("character", character);
    spec.word = add("word", word);
    spec.merge = add("merge", merge);
    spec.output = add("output", output);
    const std::shared_ptr<Model> model = builder.Build();
    spec.characters = spec.words = testing::FindTable(*model, "token");
    spec.known_characters.size = spec.known_words.size = 9;
    spec.max_characters = spec.max_nodes = 10;
    const auto made = LatticeUnfolder::Create(spec, *model);
    return made.ok() ? "accepted" : std::string(made.status().message());
  }

  Write character = Arc("before"), word = Arc("before"), merge = Sum("arcs");
  Write output = [](testing::CellBuilder& b) { b.Leave("y", b.Tanh(b.Read("h", "h", 4))); };
};

TEST(LatticeCreateTest, InputsAreWhatALatticeHasForThem) {
  EXPECT_EQ(Written{}.Error(), "accepted");
  EXPECT_THAT(Written{.character = Written::Arc("after")}.Error(),
              HasSubstr("\"character_0\": input \"after\" reads of"));
  EXPECT_THAT(Written{.merge = Written::Sum("all")}.Error(),
              HasSubstr("\"merge_2\" has 1 inputs, expected is one \"arcs\" that reads a sum"));
  EXPECT_THAT(Written{.merge = Written::Sum("arcs", Arity::kOne)}.Error(),
              HasSubstr("expected is one \"arcs\" that reads a sum"));
  EXPECT_THAT(
      (Written{.output = [](testing::CellBuilder& b) { b.Leave("z", b.Tanh(b.Read("h", "h", 4))); }}
           .Error()),
      HasSubstr("output \"output_3\" leaves no FP32 column \"y\", but {z FP32[4]}"));
  EXPECT_THAT(
      (Written{.output =
                   [](testing::CellBuilder& b) { b.Leave("y", b.Tanh(b.Carry("before", "y", 4))); }}
           .Error()),
      HasSubstr("\"output_3\": input \"before\" reads of {y FP32[4]}, a state is {h FP32[4]}"));
  EXPECT_THAT(
      (Written{.output =
                   [](testing::CellBuilder& b) { b.Leave("h", b.Tanh(b.Carry("before", "h", 4))); }}
           .Error()),
      HasSubstr("output \"output_3\" is a chain"));
  EXPECT_THAT((Written{.character = Written::Arc("before", "g", "g")}.Error()),
              HasSubstr("\"character_0\" leaves no FP32 column \"h\""));
  EXPECT_THAT((Written{.word = Written::Arc("before", "h", "g")}.Error()),
              HasSubstr("\"word_1\" leaves {g FP32[4]}, a state is {h FP32[4]}"));
}

TEST(LatticeCreateTest, TheSignatureListsWhatARequestMayBringAndAsk) {
  const LatticeModel lattices({});
  const Signature& s = lattices.model()->signature;
  ASSERT_EQ(s.inputs.size(), 3u);
  EXPECT_EQ(s.inputs[1].name, "WORDS");
  EXPECT_TRUE(s.inputs[1].optional && s.inputs[1].may_be_empty);
  EXPECT_THAT(s.inputs[1].dims, ElementsAre(-1, 3));
  std::vector<std::string> names;
  for (const TensorSpec& t : s.outputs) names.push_back(t.name);
  EXPECT_THAT(names, ElementsAre("OUTPUT", "ALL_HIDDEN", "FINAL_H", "FINAL_C", "NODE_OUTPUTS"));
  EXPECT_FALSE(s.outputs[0].on_request);
  EXPECT_TRUE(s.outputs[4].on_request);
  const RequestDescription d = lattices.model()->unfolder->Describe();
  ASSERT_EQ(d.inputs.size(), 2u);
  EXPECT_GT(d.inputs[0].num_ids, 0);
  EXPECT_GT(d.inputs[0].max_rows, 0);
  EXPECT_GT(d.inputs[1].num_ids, 0);
  EXPECT_GT(d.max_nodes, 0);
}

}  // namespace
}  // namespace cellbatch
