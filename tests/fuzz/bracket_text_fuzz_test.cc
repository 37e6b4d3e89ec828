// Damaged trees, as text and as tensors: whatever a request says, it is refused with a reason, or it is a tree, and what
// the unfolder makes of a tree is a graph that seals and answers every node.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "cells/kernels/reference/graph_interpreter.h"
#include "cells/unfold/bracket_text.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"
#include "tests/testing/tree_model.h"

namespace cellbatch {
namespace {

using testing::TreeKind;
using testing::TreeModel;
using testing::TreeRequest;
using Ints = std::vector<int32_t>;

constexpr uint64_t kSeed = 20240613;
constexpr int64_t kMaxNodes = 200;

std::vector<std::string> MakeCorpus() {
  return {"(2 (3 (3 Effective) (2 but)) (1 (1 too-tepid) (2 biopic)))",
          "(3 (2 It) (4 (4 (2 's) (4 (3 (2 a) (4 (3 lovely) (2 film))) (3 (2 with) (4 fine)))) (2 "
          ".)))\n",
          "((a)(0 b) ((1 c)) (d))",
          "(0 w1)\n(0 (1 w2) (2 w3))\n",
          "(4 (2 na\xc3\xafve) (2 \xe6\xbc\xa2\xe5\xad\x97))",
          "((((((((((w10))))))))))"};
}

std::vector<std::string> Tokens() {
  return {"(",
          ")",
          "()",
          "((",
          "))",
          " ",
          "(2 w1)",
          "(2 w1 w2)",
          "w3 ",
          "\n",
          "\xff",
          std::string(1, '\0'),
          "((((((((((((((((((((((((((((((((",
          "(1 (2 w1) (3 w2))",
          ")(",
          "\t\r"};
}

// What stands in the text, written anew from what was read: leaves and internal nodes with the labels gone.
std::string Written(const BracketTrees& read) {
  std::string all;
  size_t word = 0, node = 0;
  for (const BracketTrees::Tree& tree : read.trees) {
    std::vector<std::string> texts;
    for (int32_t i = 0; i < tree.leaves; ++i) {
      texts.push_back("(" + std::string(read.words[word++]) + ")");
    }
    for (int32_t k = 0; k < tree.internals; ++k, ++node) {
      std::string text = "(";
      for (int32_t c = node == 0 ? 0 : read.child_ends[node - 1]; c < read.child_ends[node]; ++c) {
        text += texts[static_cast<size_t>(read.children[static_cast<size_t>(c)])];
      }
      texts.push_back(text + ")");
    }
    all += texts.back();
  }
  return all;
}

// The same of the text itself: everything in front of a bracket that opens is a label or nothing, the last word in front
// of one that closes is the word.
std::string Stripped(std::string_view text) {
  std::string all, word;
  for (size_t i = 0; i < text.size();) {
    const size_t end = std::min(text.find_first_of("() \t\r\n", i), text.size());
    if (end > i) {
      word = text.substr(i, end - i);
      i = end;
      continue;
    }
    if (text[i] == '(') word.clear();
    if (text[i] == ')') all += std::exchange(word, "");
    if (text[i] == '(' || text[i] == ')') all += text[i];
    ++i;
  }
  return all;
}

// Every node but the last of a tree is the child of one later node.
void ExpectTrees(const BracketTrees& read, std::string_view text) {
  size_t leaves = 0, internals = 0, child = 0;
  for (const BracketTrees::Tree& tree : read.trees) {
    Ints parents(static_cast<size_t>(tree.leaves + tree.internals), 0);
    ASSERT_GE(tree.leaves, 1);
    for (int32_t k = 0; k < tree.internals; ++k, ++internals) {
      const auto end = static_cast<size_t>(read.child_ends[internals]);
      ASSERT_GT(end, child) << "a node without children";
      for (; child < end; ++child) {
        ASSERT_GE(read.children[child], 0);
        ASSERT_LT(read.children[child], tree.leaves + k);
        ++parents[static_cast<size_t>(read.children[child])];
      }
    }
    for (size_t i = 0; i + 1 < parents.size(); ++i) ASSERT_EQ(parents[i], 1) << "node " << i;
    ASSERT_EQ(parents.back(), 0);
    leaves += static_cast<size_t>(tree.leaves);
  }
  EXPECT_EQ(leaves, read.words.size());
  EXPECT_EQ(internals, read.child_ends.size());
  EXPECT_EQ(child, read.children.size());
  EXPECT_LE(leaves + internals, static_cast<size_t>(kMaxNodes));
  EXPECT_EQ(Written(read), Stripped(text));
}

TEST(BracketTextFuzzTest, DamagedTextsAreRefusedWithAReasonOrAreTrees) {
  std::cout << "seed " << kSeed << "\n";
  Mutator mutator(kSeed, Tokens());
  const std::vector<std::string> corpus = MakeCorpus();
  int64_t accepted = 0, refused = 0;
  for (FuzzBudget budget(2000, 0.4); budget.Next() && !HasFailure();) {
    std::string text = corpus[mutator.Below(corpus.size())];
    for (uint64_t i = 0, n = mutator.Below(3); i <= n; ++i) text = mutator.Mutate(text);
    const absl::StatusOr<BracketTrees> read = ParseBracketText(text, kMaxNodes);
    if (read.ok()) {
      ++accepted;
      ExpectTrees(*read, text);
    } else {
      ++refused;
      EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
      const std::string reason(read.status().message());
      EXPECT_TRUE(reason.starts_with("byte ") || reason == "the text has no tree") << reason;
    }
    if (HasFailure()) std::cout << "text " << ::testing::PrintToString(text) << "\n";
  }
  std::cout << accepted << " accepted, " << refused << " refused\n";
  EXPECT_GT(accepted, (accepted + refused) / 20) << "the damage is too much to be read";
  EXPECT_GT(refused, (accepted + refused) / 20);
}

// Numbers that are near what is right, or far from anything.
int32_t Odd(Mutator& mutator, const Ints& near) {
  switch (mutator.Below(6)) {
    case 0:
      return -1;
    case 1:
      return static_cast<int32_t>(mutator.Below(uint64_t{1} << 32));
    case 2:
      return static_cast<int32_t>(near.size());
    default:
      return near.empty() ? 0 : near[mutator.Below(near.size())];
  }
}

void Damage(Mutator& mutator, TreeRequest& request) {
  Ints* const tensors[] = {&request.children, &request.parents, &request.types, &request.lengths,
                           &request.tokens};
  Ints& chosen = *tensors[mutator.Below(5)];
  const size_t at = mutator.Below(chosen.size() + 1);
  switch (mutator.Below(4)) {
    case 0:
      if (at < chosen.size()) chosen.erase(chosen.begin() + static_cast<ptrdiff_t>(at));
      return;
    case 1:
      chosen.insert(chosen.begin() + static_cast<ptrdiff_t>(at), Odd(mutator, chosen));
      return;
    case 2:
      if (at < chosen.size()) std::swap(chosen[at], chosen[mutator.Below(chosen.size())]);
      return;
    default:
      if (at < chosen.size()) chosen[at] = Odd(mutator, chosen);
  }
}

// Cells are as many as the answer needs, every row of it was written, and by numbers.
void ExpectAnswers(const TreeModel& model, const TreeRequest& request) {
  CellGraph graph;
  ASSERT_TRUE(model.unfolder().Unfold(request.Input({"NODE_OUTPUTS", "OUTPUT"}), graph).ok());
  const absl::Status sealed = graph.Seal(*model.model(), 1);
  ASSERT_TRUE(sealed.ok()) << "the unfolder let through what Seal does not: " << sealed;
  EXPECT_LE(graph.num_nodes(), 2 * kMaxNodes);
  for (const std::vector<double>& tensor : InterpretGraph(*model.model(), graph)) {
    for (const double value : tensor) {
      ASSERT_TRUE(std::isfinite(value));
      ASSERT_NE(value, 0.0) << "an element that nobody wrote";
    }
  }
}

TEST(BracketTextFuzzTest, DamagedRequestsAreRefusedOrAnswered) {
  Mutator mutator(kSeed + 1, Tokens());
  std::mt19937_64 random(kSeed);
  std::vector<TreeModel> models;
  for (const TreeKind kind : {TreeKind::kBinary, TreeKind::kTwoTypes, TreeKind::kNary,
                              TreeKind::kChildSum, TreeKind::kChildSumLeaf}) {
    models.emplace_back(testing::TreeModelSpec{
        .kind = kind, .hidden = 2, .width = 2, .classes = 1, .max_nodes = 2 * kMaxNodes});
  }
  int64_t accepted = 0, refused = 0;
  for (FuzzBudget budget(500, 0.6); budget.Next() && !HasFailure();) {
    const TreeModel& model = models[mutator.Below(models.size())];
    const auto size = [&] { return 1 + static_cast<int>(mutator.Below(20)); };
    TreeRequest request = model.Random(random, size());
    if (mutator.Below(3) == 0)
      request = TreeModel::Together({request, model.Random(random, size())});
    if (mutator.Below(3) == 0 && request.parents.empty()) {
      request.MakeText();
      request.text = mutator.Mutate(request.text);
    }
    for (uint64_t i = 0, n = mutator.Below(4); i < n; ++i) Damage(mutator, request);
    CellGraph graph;
    const absl::Status s = model.unfolder().Unfold(request.Input(), graph);
    if (s.ok()) {
      ++accepted;
      ExpectAnswers(model, request);
    } else {
      ++refused;
      EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << s;
      EXPECT_EQ(s.message().substr(0, 6), "input ");
    }
  }
  std::cout << accepted << " accepted, " << refused << " refused\n";
  EXPECT_GT(accepted, (accepted + refused) / 20);
  EXPECT_GT(refused, (accepted + refused) / 5);
}

}  // namespace
}  // namespace cellbatch
