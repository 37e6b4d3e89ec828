#include "loadgen/contents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "loadgen/random_graph.h"

namespace cellbatch {
namespace {

// What our server says of a model: inputs as NAME, dims, ids, and whether they are listed.
struct Said {
  std::string name, dims;
  int ids = 0;
  bool listed = true;
  const char* datatype = "INT32";
};

struct Model {
  ModelMetadata metadata;
  ModelConfiguration config;

  explicit Model(const std::vector<Said>& inputs, std::map<std::string, std::string> more = {}) {
    metadata.name = config.name = "m";
    config.parameters = std::move(more);
    for (const Said& input : inputs) {
      const std::string prefix = "input." + input.name + ".";
      config.parameters[prefix + "datatype"] = input.datatype;
      config.parameters[prefix + "dims"] = input.dims;
      config.parameters[prefix + "ids"] = std::to_string(input.ids);
      config.parameters[prefix + "max_rows"] = "0";
      if (input.listed) {
        std::vector<int64_t> shape = {-1};
        if (const size_t comma = input.dims.find(','); comma != std::string::npos) {
          shape.push_back(std::stoi(input.dims.substr(comma + 1)));
        }
        metadata.inputs.push_back({input.name, input.datatype, shape});
      }
    }
  }
  ModelNeeds Needs() const { return *NeedsOf(metadata, config, ""); }
};

Model Lstm() { return Model({{"TOKENS", "-1", 97}}); }
Model Vectors() { return Model({{"X", "-1,3", 0, true, "FP32"}}); }
Model Speller() {
  return Model(
      {{"TOKENS", "-1", 97}, {"CHAR_IDS", "-1", 53, false}, {"CHAR_LENGTHS", "-1", 0, false}});
}
Model Decoder() { return Model({{"SOURCE", "-1", 97}}, {{"max_decode_steps", "40"}}); }
Model Binary(int types = 1) {
  return Model({{"TOKENS", "-1", 97},
                {"CHILDREN", "-1,2"},
                {"PARENT", "-1", 0, false},
                {"INTERNAL_TYPES", "-1", types, false}});
}
// Cells of any number of children, which take both.
Model ChildSum(int most_children = 4096) {
  return Model({{"TOKENS", "-1", 97}, {"CHILDREN", "-1,2"}, {"PARENT", "-1", 0, false}},
               {{"max_children", std::to_string(most_children)}});
}
Model Dependency() { return Model({{"TOKENS", "-1", 97}, {"PARENT", "-1"}}); }
Model Lattices(std::map<std::string, std::string> more = {}) {
  return Model({{"CHARS", "-1", 53}, {"WORDS", "-1,3", 97}}, std::move(more));
}
Model Graphs() {
  return Model({{"NODE_TYPES", "-1"},
                {"EDGES", "-1,3"},
                {"leaf.x", "-1,2", 0, true, "FP32"},
                {"word.token", "-1", 9}},
               {{"graph.output_type", "4"},
                {"graph.0", "leaf"},
                {"graph.0.0", "leaf.x=request"},
                {"graph.1", "word"},
                {"graph.1.0", "word.token=request"},
                {"graph.2", "pair"},
                {"graph.2.0", "pair.left=0,1,2,3"},
                {"graph.2.1", "pair.right=0,1,2,3"},
                {"graph.3", "total"},
                {"graph.3.0", "total.all=+0,1,2,3"},
                {"graph.4", "out"},
                {"graph.4.0", "out.h=0,1,2,3"}});
}

ContentsList Make(const ModelNeeds& needs, const corpus::Corpus& corpus, const MixEntry& entry = {},
                  uint64_t seed = 1) {
  auto list = ContentsOf(corpus, needs, entry, seed);
  EXPECT_TRUE(list.ok()) << list.status();
  return list.ok() ? *std::move(list) : ContentsList();
}

ContentsList BuiltIn(const ModelNeeds& needs, const MixEntry& entry = {}, uint64_t seed = 1) {
  return Make(needs, *BuiltInCorpus(needs), entry, seed);
}

const Tensor* Find(const RequestContents& contents, const std::string& name) {
  for (const Tensor& tensor : contents.inputs) {
    if (tensor.name == name) {
      return &tensor;
    }
  }
  return nullptr;
}

std::vector<int32_t> Ints(const RequestContents& contents, const std::string& name) {
  const Tensor* tensor = Find(contents, name);
  return tensor == nullptr ? std::vector<int32_t>() : *tensor->AsInts();
}

TEST(NeedsTest, TheInputsSayWhatAModelReads) {
  EXPECT_EQ(Lstm().Needs().form, RequestForm::kTokens);
  EXPECT_EQ(Vectors().Needs().form, RequestForm::kVectors);
  EXPECT_EQ(Speller().Needs().form, RequestForm::kSpelledTokens);
  EXPECT_EQ(Decoder().Needs().form, RequestForm::kSource);
  EXPECT_EQ(Binary().Needs().form, RequestForm::kBinaryTree);
  EXPECT_EQ(Dependency().Needs().form, RequestForm::kDependencyTree);
  EXPECT_EQ(ChildSum().Needs().form, RequestForm::kDependencyTree);
  EXPECT_EQ(ChildSum(2).Needs().form, RequestForm::kBinaryTree);
  EXPECT_EQ(Lattices().Needs().form, RequestForm::kLattice);
  EXPECT_EQ(Graphs().Needs().form, RequestForm::kGraph);
  EXPECT_EQ(Model({{"TOKENS", "-1", 97}, {"IMAGE", "-1"}}).Needs().form, RequestForm::kOther);
}

TEST(NeedsTest, WhatDoesNotFitAFormIsOfItsOwn) {
  const Said other = {"IMAGE", "-1"};
  for (const Model& model :
       {Model({{"TOKENS", "-1", 97, true, "FP32"}}), Model({{"X", "-1,3", 0, true, "INT32"}}),
        Model({{"X", "-1,-1", 0, true, "FP32"}}), Model({{"X", "-1,3", 0, true, "FP32"}, other}),
        Model({{"SOURCE", "-1", 97}, other}),
        Model({{"CHARS", "-1", 53}, {"WORDS", "-1,3", 97}, other})}) {
    EXPECT_EQ(model.Needs().form, RequestForm::kOther) << model.Needs().inputs;
  }
  EXPECT_EQ(Model({{"TOKENS", "-1", 97}, {"CHAR_IDS", "-1", 1, false}}).Needs().form,
            RequestForm::kTokens)
      << "with one character nothing is spelled";
}

TEST(NeedsTest, BoundsAndStatesAreThoseOfTheirInputs) {
  const ModelNeeds lattices = Lattices({{"max_sequence_length", "5"}}).Needs();
  EXPECT_EQ(lattices.characters, 53);
  EXPECT_EQ(lattices.vocabulary, 97);
  EXPECT_EQ(lattices.most_steps, 5);
  Model bounded = Lattices();
  bounded.config.parameters["input.CHARS.max_rows"] = "7";
  EXPECT_EQ(bounded.Needs().most_steps, 7);
  EXPECT_EQ(Dependency().Needs().internal_types, 1);
  EXPECT_EQ(Graphs().Needs().node_types.at(0).inputs.at(0).width, 2);
  EXPECT_FALSE(Model({{"CHARS", "-1", 53}}).Needs().reads_words) << "and wants none numbered";
  Model unclear = Lattices();
  unclear.config.parameters["input.WORDS.ids"] = "0";
  EXPECT_EQ(NeedsOf(unclear.metadata, unclear.config, "").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(
      Model({{"TOKENS", "-1", 97}, {"INITIAL_N", "1", 0, false, "INT32"}}).Needs().states.empty());
}

TEST(NeedsTest, AServerThatTellsOnlyOfItsVocabularyIsUnderstood) {
  Model other({});
  other.metadata.inputs = {{"TOKENS", "INT64", {-1}}};
  other.config.parameters = {{"vocabulary_size", "11"}};
  EXPECT_EQ(other.Needs().form, RequestForm::kTokens);
  EXPECT_EQ(other.Needs().vocabulary, 11);
  EXPECT_EQ(other.Needs().token_datatype, "INT64");
  other.config.parameters.clear();
  EXPECT_EQ(other.Needs().form, RequestForm::kOther) << "ids below what?";
}

TEST(NeedsTest, GraphsOfUnknownNodesAreRefused) {
  const std::pair<const char*, const char*> wrong[] = {{"graph.2.0", "pair.left=0,77"},
                                                       {"graph.2.0", "pair.left=0,-1"},
                                                       {"graph.0.0", "leaf.y=request"},
                                                       {"graph.output_type", "5"}};
  for (const auto& [key, value] : wrong) {
    Model graphs = Graphs();
    graphs.config.parameters[key] = value;
    EXPECT_EQ(NeedsOf(graphs.metadata, graphs.config, "").status().code(),
              absl::StatusCode::kFailedPrecondition)
        << key << " " << value;
  }
  Model graphs = Graphs();
  graphs.config.parameters.clear();
  EXPECT_EQ(NeedsOf(graphs.metadata, graphs.config, "").status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(ContentsTest, IdsStayInsideEveryVocabulary) {
  const auto below = [](const std::vector<int32_t>& ids, int32_t bound) {
    return std::all_of(ids.begin(), ids.end(), [&](int32_t id) { return id >= 0 && id < bound; });
  };
  for (const Model& model : {Lstm(), Speller(), Decoder(), Binary(2), Dependency(), Lattices()}) {
    const ContentsList list = BuiltIn(model.Needs());
    EXPECT_GE(list.requests.size(), 1000u);
    for (const RequestContents& request : list.requests) {
      ASSERT_TRUE(below(Ints(request, "TOKENS"), 97) && below(Ints(request, "SOURCE"), 97) &&
                  below(Ints(request, "CHAR_IDS"), 53) && below(Ints(request, "CHARS"), 53) &&
                  below(Ints(request, "INTERNAL_TYPES"), 2));
      const std::vector<int32_t> words = Ints(request, "WORDS");
      for (size_t w = 2; w < words.size(); w += 3) {
        ASSERT_LT(words[w], 97);
      }
      ASSERT_GT(request.size, 0);
    }
  }
}

TEST(ContentsTest, TheSeedDecidesContentsAndNothingElse) {
  for (const Model& model : {Vectors(), Binary(3), Graphs()}) {
    const ModelNeeds needs = model.Needs();
    const ContentsList one = BuiltIn(needs, {}, 7), same = BuiltIn(needs, {}, 7);
    const ContentsList other = BuiltIn(needs, {}, 8);
    bool differs = false;
    for (size_t i = 0; i < one.requests.size(); ++i) {
      ASSERT_EQ(one.requests[i].inputs.size(), same.requests[i].inputs.size());
      for (size_t t = 0; t < one.requests[i].inputs.size(); ++t) {
        ASSERT_EQ(one.requests[i].inputs[t].bytes, same.requests[i].inputs[t].bytes);
        differs = differs || t >= other.requests[i].inputs.size() ||
                  one.requests[i].inputs[t].bytes != other.requests[i].inputs[t].bytes;
      }
    }
    EXPECT_TRUE(differs);
  }
}

TEST(ContentsTest, TheRarestWordsAreSpelledUpToTheirShare) {
  MixEntry entry;
  entry.spelled = 0.5;
  const corpus::Corpus corpus{
      "",
      std::vector<corpus::Words>{{"the", "cat", "the", "dog"}, {"the", "the"}, {"dog"}, {"owl"}}};
  const ContentsList list = Make(Speller().Needs(), corpus, entry);
  EXPECT_EQ(Ints(list.requests[0], "CHAR_LENGTHS"), (std::vector<int32_t>{0, 5, 0, 5}))
      << "<*> c a t <*>; cat, owl and dog are four of eight words";
  EXPECT_EQ(Ints(list.requests[0], "CHAR_IDS")[1], 1 + 'c' % 52);
  EXPECT_EQ(Find(list.requests[1], "CHAR_IDS"), nullptr) << "nothing is spelled";
  EXPECT_EQ(Ints(list.requests[3], "CHAR_LENGTHS"), std::vector<int32_t>{5});
}

// As live streams send them: all but the first bring a state.
TEST(ContentsTest, SequencesComeInPiecesThatBringAState) {
  const Model model = Model({{"TOKENS", "-1", 97},
                             {"INITIAL_H", "2,5", 0, false, "FP32"},
                             {"INITIAL_C", "2,5", 0, false, "FP32"}});
  MixEntry entry;
  entry.piece = 3;
  const corpus::Corpus corpus{
      "", std::vector<corpus::Words>{{"a", "b", "c", "d", "e", "f", "g"}, {"a", "b"}}};
  const ContentsList list = Make(model.Needs(), corpus, entry);
  ASSERT_EQ(list.requests.size(), 4u);
  const int32_t sizes[] = {3, 3, 1, 2};
  for (size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(list.requests[r].size, sizes[r]);
    EXPECT_EQ(Ints(list.requests[r], "TOKENS").size(), static_cast<size_t>(sizes[r]));
    const Tensor* const state = Find(list.requests[r], "INITIAL_C");
    ASSERT_EQ(state != nullptr, r == 1 || r == 2) << "the first of a sequence begins from zeros";
    EXPECT_EQ(Find(list.requests[r], "INITIAL_H") != nullptr, state != nullptr);
    if (state == nullptr) continue;
    EXPECT_EQ(state->shape, (std::vector<int64_t>{2, 5}));
    EXPECT_EQ(state->bytes.size(), 40u);
  }
  EXPECT_EQ(Ints(list.requests[1], "TOKENS"),
            (std::vector<int32_t>{corpus::WordId("d", 97), corpus::WordId("e", 97),
                                  corpus::WordId("f", 97)}));
}

TEST(ContentsTest, PiecesOfStreamsBringNoStateAsTheServerHasIt) {
  const Model model = Model({{"TOKENS", "-1", 97}, {"INITIAL_H", "2,5", 0, false, "FP32"}});
  MixEntry entry;
  entry.piece = 3;
  entry.streams = 2;
  const corpus::Corpus corpus{"", std::vector<corpus::Lengths>{{7, 0}, {2, 0}}};
  const ContentsList list = Make(model.Needs(), corpus, entry);
  ASSERT_EQ(list.requests.size(), 4u);
  for (size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(list.requests[r].inputs.size(), 1u);
    EXPECT_EQ(list.requests[r].goes_on, r == 1 || r == 2);
  }
}

TEST(ContentsTest, ADecoderGoesOnAsLongAsTheTarget) {
  const corpus::Corpus pairs{
      "", std::vector<corpus::Translation>{{{"ein", "Satz"}, {"a", "sentence", "."}},
                                           {corpus::Words(5, "x"), corpus::Words(60, "y")}}};
  const ModelNeeds needs = Decoder().Needs();
  const ContentsList list = Make(needs, pairs);
  EXPECT_EQ(std::get<int64_t>(list.requests[0].parameters.at("decode_steps")), 3);
  EXPECT_EQ(list.requests[0].size, 5);
  EXPECT_EQ(std::get<int64_t>(list.requests[1].parameters.at("decode_steps")), 40);
  EXPECT_NE(list.source.find("1 decode the model's 40 steps at most"), std::string::npos);
  MixEntry until_it_ends;
  until_it_ends.free_decode = true;
  EXPECT_TRUE(Make(needs, pairs, until_it_ends).requests[0].parameters.empty());
  const corpus::Corpus lengths{"", std::vector<corpus::Lengths>{{7, 9}, {4, 0}}};
  EXPECT_EQ(std::get<int64_t>(Make(needs, lengths).requests[0].parameters.at("decode_steps")), 9);
  EXPECT_EQ(std::get<int64_t>(Make(needs, lengths).requests[1].parameters.at("decode_steps")), 4);
  const corpus::Corpus just{"", std::vector<corpus::Lengths>{{7, 40}}};
  EXPECT_EQ(Make(needs, just).source.find("decode the model's"), std::string::npos);
  Model unbounded = Decoder();
  unbounded.config.parameters.erase("max_decode_steps");
  EXPECT_EQ(
      std::get<int64_t>(Make(unbounded.Needs(), pairs).requests[1].parameters.at("decode_steps")),
      60);
  EXPECT_EQ(Ints(Make(Lstm().Needs(), pairs).requests[0], "TOKENS").size(), 3u)
      << "who does not translate reads the target";
}

TEST(ContentsTest, WhatIsTooLongIsCutAndWhatIsTooLargeLeftOutAndThatIsSaid) {
  Model lstm = Lstm();
  lstm.config.parameters["max_sequence_length"] = "2";
  const corpus::Corpus sentences{"", std::vector<corpus::Words>{{"a", "b", "c"}, {"a", "b"}}};
  const ContentsList cut = Make(lstm.Needs(), sentences);
  EXPECT_EQ(cut.requests[0].size, 2);
  EXPECT_EQ(Ints(cut.requests[0], "TOKENS").size(), 2u);
  EXPECT_NE(cut.source.find("1 cut to the model's limit of 2"), std::string::npos) << cut.source;

  const corpus::Corpus lattices{
      "", std::vector<corpus::Lattice>{{{1, 2, 3}, {{0, 2, 5}}}, {{1, 2}, {}}}};
  const ContentsList left = Make(Lattices({{"max_nodes", "3"}}).Needs(), lattices);
  EXPECT_EQ(left.requests.size(), 1u);
  EXPECT_NE(left.source.find("1 left out, too large for the model"), std::string::npos);
  EXPECT_EQ(Make(Lattices({{"max_nodes", "4"}}).Needs(), lattices).requests.size(), 2u);
  EXPECT_EQ(Make(Lattices({{"max_sequence_length", "3"}}).Needs(), lattices).requests.size(), 2u);
  MixEntry entry;
  entry.lengths = "l.txt";
  const auto none = ContentsOf(lattices, Lattices({{"max_nodes", "1"}}).Needs(), entry, 1);
  EXPECT_EQ(
      std::string(none.status().message()),
      "lengths=l.txt: model \"m\" takes 1 nodes and 0 steps a request, all 2 items are larger");

  const corpus::Corpus lengths{"", std::vector<corpus::Lengths>{{3, 0}, {9, 0}}};
  const corpus::Corpus trees{"", std::vector<corpus::BinaryTree>{
                                     {{"a", "b"}, {{0, 1}}}, {{"a", "b", "c"}, {{0, 1}, {2, 3}}}}};
  const corpus::Corpus heads{
      "", std::vector<corpus::DependencyTree>{{{"a", "b", "c"}, {1, -1, 1}},
                                              {{"a", "b", "c", "d"}, {1, -1, 1, 1}}}};
  for (const auto& [items, of, most] :
       {std::tuple{lengths, Graphs(), "8"}, {trees, Binary(), "3"}, {heads, Dependency(), "3"}}) {
    Model model = of;
    model.config.parameters["max_nodes"] = most;
    const ContentsList some = Make(model.Needs(), items);
    EXPECT_EQ(some.requests.size(), 1u) << some.source;
    EXPECT_NE(some.source.find("1 left out"), std::string::npos) << some.source;
  }
}

TEST(ContentsTest, ASizeIsWhatThereIsToCompute) {
  for (const RequestContents& graph : BuiltIn(Graphs().Needs()).requests) {
    ASSERT_EQ(static_cast<size_t>(graph.size), Ints(graph, "NODE_TYPES").size());
  }
  const corpus::Corpus one{"", std::vector<corpus::Lengths>{{1, 0}}};
  EXPECT_EQ(Make(Graphs().Needs(), one).requests[0].size, 2) << "and what the output reads";
  for (const RequestContents& tree : BuiltIn(Binary(2).Needs()).requests) {
    const size_t leaves = Ints(tree, "TOKENS").size();
    ASSERT_EQ(static_cast<size_t>(tree.size), 2 * leaves - 1);
    ASSERT_EQ(Ints(tree, "INTERNAL_TYPES").size(), leaves - 1);
  }
}

TEST(ContentsTest, WhatAModelDoesNotReadIsNotSent) {
  const corpus::Corpus lattices{"", std::vector<corpus::Lattice>{{{1, 2, 3}, {{0, 2, 5}}}}};
  const ContentsList list = Make(Model({{"CHARS", "-1", 53}}).Needs(), lattices);
  EXPECT_EQ(list.requests[0].inputs.size(), 1u);
  EXPECT_EQ(list.requests[0].size, 3);
}

TEST(ContentsTest, WordsOfLengthsGoOnThroughTheBuiltInOnes) {
  const corpus::Corpus lengths{"", std::vector<corpus::Lengths>{{9, 0}, {9, 0}}};
  const ContentsList list = Make(Speller().Needs(), lengths);
  const std::vector<int32_t> one = Ints(list.requests[0], "TOKENS");
  EXPECT_GT(std::set<int32_t>(one.begin(), one.end()).size(), 1u);
  EXPECT_NE(one, Ints(list.requests[1], "TOKENS"));
}

TEST(ContentsTest, TreesAreOnlySentToCellsOfAsManyChildren) {
  const corpus::Corpus heads{"", std::vector<corpus::DependencyTree>{
                                     {{"a", "b", "c", "d"}, {3, 3, 3, -1}}, {{"a", "b"}, {1, -1}}}};
  const corpus::Corpus brackets{"", std::vector<corpus::BinaryTree>{{{"a", "b"}, {{0, 1}}}}};
  EXPECT_EQ(Make(ChildSum().Needs(), heads).requests.size(), 2u);
  EXPECT_EQ(Make(ChildSum().Needs(), brackets).requests.size(), 1u);
  const ContentsList narrow = Make(ChildSum(3).Needs(), heads);
  EXPECT_EQ(narrow.requests.size(), 2u) << "three are not too many";
  Model pairs = Dependency();
  pairs.config.parameters["max_children"] = "2";
  const ContentsList left = Make(pairs.Needs(), heads);
  EXPECT_EQ(left.requests.size(), 1u);
  EXPECT_NE(left.source.find("1 left out"), std::string::npos) << left.source;
  EXPECT_EQ(ContentsOf(heads, ChildSum(2).Needs(), {}, 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(ContentsTest, DataOfAnotherKindIsNamedWithWhatTheModelReads) {
  MixEntry entry;
  entry.data = "sst.ptb";
  const corpus::Corpus trees{"sst.ptb", std::vector<corpus::BinaryTree>{{{"good"}, {}}}};
  EXPECT_EQ(std::string(ContentsOf(trees, Decoder().Needs(), entry, 1).status().message()),
            "data=sst.ptb (binary trees): model \"m\" reads SOURCE, sentences to decode from; it "
            "takes lengths, sentences, sentence pairs");
  const corpus::Corpus words{"", std::vector<corpus::Words>{{"good"}}};
  for (const Model& model : {Binary(), Dependency(), Lattices()}) {
    EXPECT_EQ(ContentsOf(words, model.Needs(), entry, 1).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
  MixEntry by_length;
  by_length.lengths = testing::TempDir() + "/of_contents_test.txt";
  std::ofstream(by_length.lengths) << "4\n";
  const auto lengths = CorpusOf(by_length, Lstm().Needs());
  std::remove(by_length.lengths.c_str());
  ASSERT_TRUE(lengths.ok()) << lengths.status();
  EXPECT_EQ(lengths->source, "of_contents_test.txt");
  EXPECT_EQ(std::string(ContentsOf(*lengths, ChildSum().Needs(), by_length, 1).status().message()),
            "lengths=" + by_length.lengths +
                " (lengths): model \"m\" reads TOKENS and PARENT, dependency trees; it takes "
                "dependency trees, binary trees");
  MixEntry missing;
  missing.data = "/nowhere/at/all";
  EXPECT_EQ(CorpusOf(missing, Lstm().Needs()).status().code(), absl::StatusCode::kNotFound);
}

TEST(ContentsTest, ARequestInJsonIsSentAsItIsToAnyModel) {
  const Model own({Said{"IMAGE", "-1"}});
  EXPECT_EQ(BuiltInCorpus(own.Needs()).status().code(), absl::StatusCode::kFailedPrecondition);
  const corpus::Corpus requests{
      "", std::vector<corpus::JsonRequest>{
              {R"({"inputs":[{"name":"IMAGE","shape":[2],"datatype":"INT32","data":[4,5]}]})"},
              {R"({"inputs":[{"name":"IMAGE","shape":[1],"datatype":"INT32","data":[6]}],
                   "outputs":[{"name":"FACES"},{"name":"NAMES"}]})"}}};
  const ContentsList list = Make(own.Needs(), requests);
  EXPECT_EQ(list.requests[0].outputs, std::vector<std::string>());
  EXPECT_EQ(list.requests[1].outputs, (std::vector<std::string>{"FACES", "NAMES"}));
  EXPECT_EQ(Ints(list.requests[0], "IMAGE"), (std::vector<int32_t>{4, 5}));
  EXPECT_EQ(list.requests[0].size, 2);
  const corpus::Corpus wrong{"", std::vector<corpus::JsonRequest>{{R"({"inputs":[{}]})"}}};
  EXPECT_EQ(std::string(ContentsOf(wrong, own.Needs(), {}, 1).status().message()),
            "data=: request 1: an input has no name");
  MixEntry pieces;
  pieces.data = "r.json";
  pieces.piece = 3;
  EXPECT_EQ(std::string(ContentsOf(requests, own.Needs(), pieces, 1).status().message()),
            "piece=3: requests in JSON are sent as data=r.json has them");
}

// A chain, whose first node reads zeros, beside a type that nobody reads.
TEST(RandomGraphTest, AChainIsOneWhateverItsLength) {
  const Model model({{"NODE_TYPES", "-1"}, {"EDGES", "-1,3"}, {"step.x", "-1", 9}},
                    {{"graph.output_type", "0"},
                     {"graph.0", "step"},
                     {"graph.0.0", "step.x=request"},
                     {"graph.0.1", "step.h=0"},
                     {"graph.1", "alone"},
                     {"graph.1.0", "alone.h=2"},
                     {"graph.2", "never"},
                     {"graph.2.0", "never.h=1"}});
  std::mt19937_64 random(3);
  for (int nodes = 1; nodes < 9; ++nodes) {
    const RequestContents graph{RandomGraph(model.Needs(), nodes, random), {}, 0};
    EXPECT_EQ(Ints(graph, "NODE_TYPES"), std::vector<int32_t>(static_cast<size_t>(nodes), 0));
    std::vector<int32_t> edges;
    for (int32_t to = 1; to < nodes; ++to) edges.insert(edges.end(), {to - 1, to, 1});
    EXPECT_EQ(Ints(graph, "EDGES"), edges);
  }
}

// By the rules of the server (cells/unfold/dag_unfolder.h).
TEST(RandomGraphTest, GraphsKeepTheRulesOfTheirTypes) {
  const ModelNeeds needs = Graphs().Needs();
  std::mt19937_64 random(3);
  std::set<int32_t> types_seen;
  int most_edges = 0, both = 0;
  for (int nodes = 1; nodes < 60; ++nodes) {
    RequestContents graph{RandomGraph(needs, nodes, random), {}, 0};
    const std::vector<int32_t> types = Ints(graph, "NODE_TYPES"), edges = Ints(graph, "EDGES");
    ASSERT_GE(types.size(), static_cast<size_t>(nodes));
    ASSERT_EQ(types.back(), needs.output_type);
    types_seen.insert(types.begin(), types.end());
    std::map<std::pair<int32_t, int32_t>, int> into;
    for (size_t e = 0; e < edges.size(); e += 3) {
      const int32_t from = edges[e], to = edges[e + 1], input = edges[e + 2];
      ASSERT_TRUE(from >= 0 && from < to && to < std::ssize(types));
      const GraphNodeType::Port& port = needs.node_types.at(types[to]).inputs.at(input);
      ASSERT_FALSE(port.brought);
      ASSERT_EQ(std::count(port.reads.begin(), port.reads.end(), types[from]), 1);
      const int edges_into = ++into[std::make_pair(to, input)];
      ASSERT_TRUE(edges_into == 1 || port.sums);
      most_edges = std::max(most_edges, edges_into);
      both += types[to] == 2 && input == 1 && edges[e - 3] == from ? 1 : 0;
    }
    ASSERT_LE(types.size(), static_cast<size_t>(nodes) + 1) << "one for the output to read";
    ASSERT_TRUE(nodes == 1 || types.size() == static_cast<size_t>(nodes));
    const int32_t last = static_cast<int32_t>(types.size()) - 1;
    ASSERT_EQ(into.count(std::make_pair(last, 0)), 1u) << "the output reads";
    for (size_t t = 0; t < 2; ++t) {
      const Tensor* rows = Find(graph, t == 0 ? "leaf.x" : "word.token");
      const auto count = std::count(types.begin(), types.end(), static_cast<int32_t>(t));
      ASSERT_EQ(rows == nullptr ? 0 : rows->shape[0], count);
    }
  }
  EXPECT_EQ(types_seen.size(), 5u);
  EXPECT_EQ(most_edges, 3);
  EXPECT_LT(both, 40) << "pairs read two nodes where there are two that nobody has read";
}

}  // namespace
}  // namespace cellbatch
