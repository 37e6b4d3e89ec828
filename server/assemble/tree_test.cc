// Folders of tree models, through the loader. What the models compute is compared elsewhere; here is what a config means.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cells/unfold/tree_unfolder.h"
#include "server/assemble/model_folder.h"
#include "server/repository/model_loader.h"

namespace cellbatch {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kSumCell[] = R"(name: "sum_node"
inputs { name: "x" columns { name: "x" type: FP32 dims: "D" } }
inputs { name: "edges" columns { name: "e" type: FP32 dims: "H" } arity: SUM }
parameters { name: "W" dims: "H" dims: "D" }
ops { name: "product" kind: MATMUL args: "x.x" args: "W" }
ops { name: "sum" kind: ADD args: "product" args: "edges.e" }
ops { name: "h" kind: TANH args: "sum" }
outputs { column: "h" value: "h" }
)";
constexpr char kEdgeCell[] = R"(name: "sum_edge"
inputs { name: "child" columns { name: "h" type: FP32 dims: "H" } }
parameters { name: "U" dims: "H" dims: "H" }
ops { name: "e" kind: MATMUL args: "child.h" args: "U" }
outputs { column: "e" value: "e" }
)";
constexpr char kPairTypes[] = R"(cell_types {
  name: "leaf" cell: "word_leaf"
  reads { input: "x" through: "embed" }
  parameters { name: "embed/table" tensors: "emb" }
  parameters { name: "W" tensors: "w" }
}
cell_types {
  name: "a" cell: "pair_node"
  parameters { name: "U0" tensors: "u0" }
  parameters { name: "U1" tensors: "u1" }
}
cell_types {
  name: "b" cell: "pair_node"
  parameters { name: "U0" tensors: "u1" }
  parameters { name: "U1" tensors: "u0" }
}
cell_types {
  name: "out" cell: "linear"
  reads { input: "x" through: "below" }
  parameters { name: "W" tensors: "fc" }
}
)";
constexpr char kSumTypes[] = R"(cell_types {
  name: "words" cell: "embed"
  parameters { name: "table" tensors: "emb" }
}
cell_types {
  name: "node" cell: "sum_node"
  parameters { name: "W" tensors: "w" }
}
cell_types {
  name: "edge" cell: "sum_edge"
  parameters { name: "U" tensors: "u0" }
}
)";

class TreeModelTest : public testing::Test {
 protected:
  static constexpr int64_t kV = 20, kD = 5, kH = 3, kC = 2;

  TreeModelTest() {
    Write("sum_node.textproto", kSumCell);
    Write("sum_edge.textproto", kEdgeCell);
  }

  void Write(const std::string& file, std::string_view text) const { folder_.Write(file, text); }
  absl::StatusOr<std::shared_ptr<const Model>> Load(const std::string& config) const {
    Write("config.textproto", config);
    return LoadModel(folder_.path(), "trees", 1, ModelId(7), limits_);
  }
  std::string Error(const std::string& config) const {
    const auto model = Load(config);
    return model.ok() ? "loaded" : std::string(model.status().message());
  }
  static std::vector<std::string> Names(const std::vector<TensorSpec>& specs) {
    std::vector<std::string> names;
    for (const TensorSpec& t : specs) names.push_back(t.name);
    return names;
  }

  const ModelFolder folder_{
      "trees",
      {{"emb", {kV, kD}}, {"w", {kH, kD}}, {"u0", {kH, kH}}, {"u1", {kH, kH}}, {"fc", {kC, kH}}}};
  LoaderLimits limits_;
};

TEST_F(TreeModelTest, AFolderBecomesAModelOfTrees) {
  const auto loaded =
      Load(std::string(kPairTypes) +
           "tree { leaf: \"leaf\" internal: \"a\" internal: \"b\" output: \"out\" }");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Model& m = **loaded;
  ASSERT_EQ(m.types.size(), 4u);
  EXPECT_EQ(m.types[0].out, m.types[1].out) << "a node's children may be leaves or nodes";
  EXPECT_EQ(m.types[1].out, m.types[2].out);
  EXPECT_THAT(m.types[1].in, ElementsAre(m.types[0].out, m.types[0].out));
  EXPECT_THAT(Names(m.signature.inputs),
              ElementsAre("TOKENS", "CHILDREN", "PARENT", "INTERNAL_TYPES", "LENGTHS"));
  EXPECT_THAT(Names(m.signature.outputs),
              ElementsAre("OUTPUT", "NODE_OUTPUTS", "ALL_HIDDEN", "FINAL_H"));
  EXPECT_EQ(m.signature.vocabulary_size, kV);
  EXPECT_EQ(m.signature.max_sequence_length, 0) << "trees are bounded by their nodes";
}

TEST_F(TreeModelTest, WithWordsInItsVersionFolderAModelReadsText) {
  Write("1/vocabulary.txt", "the\ncat\n");
  const std::string config =
      std::string(kPairTypes) +
      "tree { leaf: \"leaf\" internal: \"a\" internal: \"b\" output: \"out\" }\n"
      "optional_outputs: \"NODE_OUTPUTS\"\n"
      "vocabulary { out_of_vocabulary: UNKNOWN_WORD unknown_id: 1 }";
  const auto loaded = Load(config);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(Names((*loaded)->signature.inputs), ::testing::Contains("TREE"));
  EXPECT_TRUE((*loaded)->signature.outputs[1].listed);
  const std::string text("\x11\0\0\0(0 (1 the) (dog))", 21);
  RequestInput input;
  input.tensors = {
      {"TREE",
       WireType::kBytes,
       {1},
       absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size())}};
  CellGraph graph;
  const absl::Status s = (*loaded)->unfolder->Unfold(input, graph);
  ASSERT_TRUE(s.ok()) << s;
  int32_t tokens[2];
  std::memcpy(tokens, graph.subgraphs()[0].data, sizeof(tokens));
  EXPECT_EQ(tokens[0], 0);
  EXPECT_EQ(tokens[1], 1) << "unknown";
  Write("1/vocabulary.txt", "the\n\ncat\n");
  EXPECT_THAT(Error(config), HasSubstr("1/vocabulary.txt: line 2"));
}

TEST_F(TreeModelTest, NodesWithWordsReadWhatEdgesLeft) {
  const auto loaded = Load(std::string(kSumTypes) +
                           "tree { embedding: \"words\" internal: \"node\" edge: \"edge\" }");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Model& m = **loaded;
  const CellType& edge = m.types[1];
  const CellType& node = m.types[2];
  EXPECT_EQ(edge.name, "edge");
  EXPECT_THAT(edge.in, ElementsAre(node.out)) << "made before the nodes whose rows it reads";
  EXPECT_THAT(node.in, ElementsAre(m.types[0].out, edge.out));
  EXPECT_THAT(Names(m.signature.inputs),
              ElementsAre("TOKENS", "CHILDREN", "PARENT", "INTERNAL_TYPES", "LENGTHS"))
      << "behind an embedding a node without a word reads zeros";
  EXPECT_THAT(Names(m.signature.outputs), ElementsAre("OUTPUT", "ALL_HIDDEN", "FINAL_H"));
}

TEST_F(TreeModelTest, MistakesAreNamed) {
  const std::string pair = kPairTypes;
  EXPECT_THAT(Error(pair + "tree { leaf: \"leaf\" internal: \"a\" output: \"out\" }"),
              HasSubstr("cell type \"b\" is not used"));
  EXPECT_THAT(
      Error(pair + "tree { leaf: \"leaf\" internal: \"a\" internal: \"c\" output: \"out\" }"),
      HasSubstr("tree: internal names cell type \"c\", which is not there"));
  EXPECT_THAT(
      Error(pair + "tree { leaf: \"leaf\" internal: \"a\" internal: \"a\" output: \"out\" }"),
      HasSubstr("tree: internal: cell type \"a\" is used twice"));
  EXPECT_THAT(
      Error(pair + "tree { leaf: \"leaf\" internal: \"out\" internal: \"b\" output: \"a\" }"),
      HasSubstr("cell type \"out\": reads FP32 by input \"x\", the request's TOKENS is INT32"));
  EXPECT_THAT(
      Error(pair + "tree { internal: \"a\" internal: \"b\" internal: \"leaf\" output: \"out\" }"),
      HasSubstr("tree: cell type \"leaf\" reads no children"));
  EXPECT_THAT(Error(std::string(kSumTypes) + "tree { embedding: \"words\" internal: \"node\" }"),
              AllOf(HasSubstr("cell type \"node\""), HasSubstr("\"edges\"")));
  const std::string good =
      "tree { leaf: \"leaf\" internal: \"a\" internal: \"b\" output: \"out\" }";
  EXPECT_EQ(Error(pair + good), "loaded");
  EXPECT_THAT(Error(pair + good + " max_nodes: 2000000"),
              HasSubstr("max_nodes is 2000000, this server's limit is 1048576"));
  EXPECT_THAT(Error(pair + good + " max_sequence_length: 7"), HasSubstr("bounded by max_nodes"));
  EXPECT_THAT(Error(pair + good + " vocabulary { size: 21 }"),
              HasSubstr("vocabulary of words: size is 21, the embedding has 20 rows"));
  EXPECT_THAT(Error(pair + good + " optional_outputs: \"FINAL_C\""),
              HasSubstr("the model has no output \"FINAL_C\""));
  const std::string twice =
      Error(pair + "tree { leaf: \"leef\" internal: \"a\" } max_nodes: -1 weight: -1");
  EXPECT_THAT(twice, AllOf(HasSubstr("\"leef\", which is not there"), HasSubstr("max_nodes is -1"),
                           HasSubstr("weight is -1, allowed are 1e-06 to 1000000, and 0 for 1")));
  for (const char* weight : {"1e-300", "1e7", "nan"}) {
    EXPECT_THAT(Error(pair + good + " weight: " + weight), HasSubstr("allowed are 1e-06 to"));
  }
}

}  // namespace
}  // namespace cellbatch
