#include "loadgen/contents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
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
  Model graphs = Graphs();
  graphs.config.parameters["graph.2.0"] = "pair.left=0,77";
  EXPECT_EQ(NeedsOf(graphs.metadata, graphs.config, "").status().code(),
            absl::StatusCode::kFailedPrecondition);
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
}

TEST(ContentsTest, WhatIsTooLongIsCutAndWhatIsTooLargeLeftOutAndThatIsSaid) {
  Model lstm = Lstm();
  lstm.config.parameters["max_sequence_length"] = "2";
  const corpus::Corpus sentences{"", std::vector<corpus::Words>{{"a", "b", "c"}, {"a"}}};
  const ContentsList cut = Make(lstm.Needs(), sentences);
  EXPECT_EQ(cut.requests[0].size, 2);
  EXPECT_NE(cut.source.find("1 cut to the model's limit of 2"), std::string::npos) << cut.source;

  const corpus::Corpus lattices{
      "", std::vector<corpus::Lattice>{{{1, 2, 3}, {{0, 2, 5}}}, {{1, 2}, {}}}};
  const ContentsList left = Make(Lattices({{"max_nodes", "3"}}).Needs(), lattices);
  EXPECT_EQ(left.requests.size(), 1u);
  EXPECT_NE(left.source.find("1 left out, too large for the model"), std::string::npos);
  const auto none = ContentsOf(lattices, Lattices({{"max_nodes", "1"}}).Needs(), {}, 1);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kFailedPrecondition);
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
  MixEntry missing;
  missing.data = "/nowhere/at/all";
  EXPECT_EQ(CorpusOf(missing, Lstm().Needs()).status().code(), absl::StatusCode::kNotFound);
}

TEST(ContentsTest, ARequestInJsonIsSentAsItIsToAnyModel) {
  const Model own({Said{"IMAGE", "-1"}});
  EXPECT_EQ(BuiltInCorpus(own.Needs()).status().code(), absl::StatusCode::kFailedPrecondition);
  const corpus::Corpus requests{
      "", std::vector<corpus::JsonRequest>{
              {R"({"inputs":[{"name":"IMAGE","shape":[2],"datatype":"INT32","data":[4,5]}]})"}}};
  const ContentsList list = Make(own.Needs(), requests);
  EXPECT_EQ(Ints(list.requests[0], "IMAGE"), (std::vector<int32_t>{4, 5}));
  EXPECT_EQ(list.requests[0].size, 2);
  const corpus::Corpus wrong{"", std::vector<corpus::JsonRequest>{{R"({"inputs":[{}]})"}}};
  EXPECT_EQ(std::string(ContentsOf(wrong, own.Needs(), {}, 1).status().message()),
            "data=: request 1: an input has no name");
}

// By the rules of the server (cells/unfold/dag_unfolder.h).
TEST(RandomGraphTest, GraphsKeepTheRulesOfTheirTypes) {
  const ModelNeeds needs = Graphs().Needs();
  std::mt19937_64 random(3);
  std::set<int32_t> types_seen;
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
    }
    const int32_t last = static_cast<int32_t>(types.size()) - 1;
    ASSERT_EQ(into.count(std::make_pair(last, 0)), 1u) << "the output reads";
    for (size_t t = 0; t < 2; ++t) {
      const Tensor* rows = Find(graph, t == 0 ? "leaf.x" : "word.token");
      const auto count = std::count(types.begin(), types.end(), static_cast<int32_t>(t));
      ASSERT_EQ(rows == nullptr ? 0 : rows->shape[0], count);
    }
  }
  EXPECT_EQ(types_seen.size(), 5u);
}

}  // namespace
}  // namespace cellbatch
