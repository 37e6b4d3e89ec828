// Every tree of the real treebanks through the unfolder and the scheduler on a CPU device, all in flight at once: equal to
// the equations in double, and in bits to itself alone. The models are tests/testing/tree_model.h's, small on purpose.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <random>

#include "cells/unfold/bracket_text.h"
#include "tests/golden/bound.h"
#include "tests/golden/served.h"
#include "tests/testing/tree_model.h"
#include "tests/zoo/data.h"

namespace cellbatch::zoo {
namespace {

using golden::Served;
using testing::TreeKind;
using testing::TreeModel;
using testing::TreeRequest;

constexpr int32_t kVocabulary = 256;

TreeModel Model(TreeKind kind) {
  return TreeModel(
      {.kind = kind, .hidden = 8, .width = 6, .classes = 5, .vocabulary = kVocabulary});
}

std::vector<int32_t> Tokens(const Words& words) {
  std::vector<int32_t> tokens;
  for (const std::string& word : words) tokens.push_back(WordId(word, kVocabulary));
  return tokens;
}

std::vector<TreeRequest> SstRequests(int types) {
  const Data<BinaryTree> data = SstTrees();
  std::cout << data.items.size() << " trees of " << data.source << "\n";
  std::mt19937_64 coin(1);
  std::vector<TreeRequest> requests;
  for (const BinaryTree& tree : data.items) {
    TreeRequest& r = requests.emplace_back();
    r.tokens = Tokens(tree.words);
    for (const auto& pair : tree.children) {
      r.children.insert(r.children.end(), pair.begin(), pair.end());
      if (types > 1) r.types.push_back(static_cast<int32_t>(coin() >> 63));
    }
  }
  return requests;
}

std::vector<TreeRequest> EwtRequests() {
  const Data<DependencyTree> data = EwtTrees();
  std::cout << data.items.size() << " trees of " << data.source << "\n";
  std::vector<TreeRequest> requests;
  for (const DependencyTree& tree : data.items) {
    TreeRequest& r = requests.emplace_back();
    r.tokens = Tokens(tree.words);
    r.parents = tree.parent;
  }
  return requests;
}

std::vector<double> Doubles(const ReturnedTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return {values.begin(), values.end()};
}

void ExpectServed(const TreeModel& model, const std::vector<TreeRequest>& requests) {
  auto served = Served::Start(1);
  ASSERT_TRUE(served.ok()) << served.status();
  ASSERT_TRUE((*served)->Add(model.model()).ok());
  std::vector<CellGraph> graphs;
  int64_t nodes = 0;
  for (const TreeRequest& r : requests) {
    graphs.push_back(model.Graph(r, {"OUTPUT", "NODE_OUTPUTS"}));
    nodes += graphs.back().num_nodes();
  }
  const auto together = (*served)->Answer(model.model(), std::move(graphs));
  double worst = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(together[i]->status.ok()) << together[i]->status;
    const TreeModel::Answers right = model.Reference(requests[i]);
    const auto& tensors = together[i]->graph.tensors();
    worst = std::max({worst, golden::PartOfBound(right.root_y, Doubles(tensors[0])),
                      golden::PartOfBound(right.y, Doubles(tensors[1]))});
    ASSERT_LE(worst, 1.0) << "tree " << i;
  }
  for (size_t i = 0; i < requests.size(); i += 200) {
    std::vector<CellGraph> one;
    one.push_back(model.Graph(requests[i], {"OUTPUT", "NODE_OUTPUTS"}));
    const auto alone = (*served)->Answer(model.model(), std::move(one));
    EXPECT_EQ(Doubles(alone[0]->graph.tensors()[1]), Doubles(together[i]->graph.tensors()[1])) << i;
  }
  std::cout << nodes << " cells, worst answer at " << worst << " of the bound\n";
}

TEST(RealTreesTest, TheSentimentTreebankBinary) {
  ExpectServed(Model(TreeKind::kBinary), SstRequests(1));
}

TEST(RealTreesTest, TheSentimentTreebankWithTwoTypes) {
  ExpectServed(Model(TreeKind::kTwoTypes), SstRequests(2));
}

// The JIT paper's lesson: what depends on the number of children is in sums, so that nodes of any number are one type.
TEST(RealTreesTest, DependencyTreesOfEveryArityAreOneInternalType) {
  const TreeModel model = Model(TreeKind::kChildSum);
  const std::vector<TreeRequest> requests = EwtRequests();
  ASSERT_EQ(model.spec().internal.size(), 1u);
  ASSERT_EQ(model.model()->types.size(), 3u) << "a node, an edge, an output; no other";
  std::map<size_t, int> arities;
  for (const TreeRequest& r : requests) {
    std::vector<size_t> degree(r.parents.size(), 0);
    for (const int32_t parent : r.parents) {
      if (parent >= 0) ++degree[static_cast<size_t>(parent)];
    }
    for (const size_t d : degree) ++arities[d];
    int64_t nodes = 0, edges = 0;
    const CellGraph graph = model.Graph(r);
    for (const Subgraph& s : graph.subgraphs()) {
      nodes += s.type == model.spec().internal[0] ? s.length : 0;
      edges += s.type == model.spec().edge ? s.length : 0;
    }
    ASSERT_EQ(nodes, r.nodes());
    ASSERT_EQ(edges, r.nodes() - 1);
  }
  EXPECT_GE(arities.size(), 10u) << "the treebank has nodes of many arities";
  EXPECT_GE(arities.rbegin()->first, 9u);
  std::cout << "numbers of children 0 to " << arities.rbegin()->first << "\n";
  ExpectServed(model, requests);
}

TEST(RealTreesTest, DependencyTreesWithALeafTypeAndEdgesInSets) {
  ExpectServed(Model(TreeKind::kChildSumLeaf), EwtRequests());
}

// As the treebank writes a tree; all labels 2.
std::string Bracketed(const BinaryTree& tree) {
  std::vector<std::string> text;
  for (const std::string& word : tree.words) text.push_back("(2 " + word + ")");
  for (const auto& [left, right] : tree.children) {
    text.push_back("(2 " + text[static_cast<size_t>(left)] + " " +
                   text[static_cast<size_t>(right)] + ")");
  }
  return text.back();
}

// The treebank's own lines; built-in trees, and it is said, where they are not here.
std::vector<std::string> TreebankLines() {
  std::vector<std::string> lines;
  for (const char* file : {"sst_dev.ptb", "sst_test.ptb", "sst_train.ptb"}) {
    std::ifstream in(DataFolder() + "/" + file);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
  }
  if (!lines.empty()) return lines;
  for (const BinaryTree& tree : SstTrees().items) lines.push_back(Bracketed(tree));
  return lines;
}

// Against another reader of them.
TEST(RealTreesTest, LinesOfTheTreebankAreReadAsTheyStand) {
  const std::vector<std::string> lines = TreebankLines();
  for (const std::string& line : lines) {
    const absl::StatusOr<BracketTrees> read = ParseBracketText(line, 1000);
    ASSERT_TRUE(read.ok()) << line << read.status();
    BinaryTree other;
    ASSERT_TRUE(ParseBracketed(line, other));
    ASSERT_EQ(read->trees.size(), 1u);
    ASSERT_EQ(Words(read->words.begin(), read->words.end()), other.words);
    std::vector<int32_t> children;
    for (const auto& pair : other.children) {
      children.insert(children.end(), pair.begin(), pair.end());
    }
    ASSERT_EQ(read->children, children);
  }
  std::cout << lines.size() << " lines\n";
}

}  // namespace
}  // namespace cellbatch::zoo
