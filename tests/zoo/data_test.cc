#include "tests/zoo/data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/zoo/synthetic.h"

namespace cellbatch::zoo {
namespace {

using Children = std::vector<std::array<int32_t, 2>>;

TEST(BracketsTest, ATreesLeavesComeFirstAndChildrenBeforeTheirParents) {
  BinaryTree tree;
  ASSERT_TRUE(ParseBracketed("(3 (2 (2 It) (1 's)) (4 (2 a) (2 (2 lovely) (2 film))))", tree));
  EXPECT_EQ(tree.words, (Words{"It", "'s", "a", "lovely", "film"}));
  EXPECT_EQ(tree.children, (Children{{0, 1}, {3, 4}, {2, 6}, {5, 7}}));
}

TEST(BracketsTest, OneWordIsATree) {
  BinaryTree tree;
  ASSERT_TRUE(ParseBracketed("(2 Good)", tree));
  EXPECT_EQ(tree.words, Words{"Good"});
  EXPECT_TRUE(tree.children.empty());
}

TEST(BracketsTest, WhatIsNoTreeIsRefused) {
  for (const char* text : {"", "(", ")", "(2 a", "(2 a b)", "(2 (2 a))", "(2 (2 a) b)",
                           "(2 (2 a) (2 b) (2 c))", "(2 a) (2 b)", "a", "(2 )"}) {
    BinaryTree tree;
    EXPECT_FALSE(ParseBracketed(text, tree)) << text;
  }
}

TEST(BracketsTest, ATreeMayBeAsDeepAsItsText) {
  constexpr int32_t kDepth = 100'000;
  std::string text;
  for (int32_t i = 0; i < kDepth; ++i) text += "(2 (2 a) ";
  text += "(2 z)" + std::string(kDepth, ')');
  BinaryTree tree;
  ASSERT_TRUE(ParseBracketed(text, tree));
  EXPECT_EQ(tree.words.size(), kDepth + 1u);
  EXPECT_EQ(tree.children.front(), (std::array<int32_t, 2>{kDepth - 1, kDepth}));
  EXPECT_EQ(tree.children.back(), (std::array<int32_t, 2>{0, 2 * kDepth - 1}));
}

// Children before parents, every node but the last somebody's child exactly once.
void ExpectBinary(const BinaryTree& tree) {
  const size_t leaves = tree.words.size();
  ASSERT_EQ(tree.children.size() + 1, leaves);
  std::vector<int> parents(2 * leaves - 1);
  for (size_t k = 0; k < tree.children.size(); ++k) {
    for (const int32_t child : tree.children[k]) {
      ASSERT_LT(static_cast<size_t>(child), leaves + k);
      ++parents[static_cast<size_t>(child)];
    }
  }
  EXPECT_EQ(std::count(parents.begin(), parents.end() - 1, 1), 2 * std::ssize(tree.words) - 2);
  EXPECT_EQ(parents.back(), 0);
}

void ExpectRooted(const DependencyTree& tree) {
  ASSERT_EQ(tree.words.size(), tree.parent.size());
  EXPECT_EQ(std::count(tree.parent.begin(), tree.parent.end(), -1), 1);
  for (size_t i = 0; i < tree.parent.size(); ++i) {
    size_t node = i, steps = 0;
    while (tree.parent[node] >= 0 && steps <= tree.parent.size()) {
      node = static_cast<size_t>(tree.parent[node]);
      ++steps;
    }
    EXPECT_LT(steps, tree.parent.size()) << "word " << i << " has no way to the root";
  }
}

void ExpectLattice(const Lattice& lattice) {
  const auto n = static_cast<int32_t>(lattice.characters.size());
  ASSERT_GT(n, 0);
  for (const auto& [start, end, id] : lattice.words) {
    EXPECT_TRUE(start >= 0 && start + 2 <= end && end <= n && id >= 0);
  }
}

template <typename Item, typename Size>
double Mean(const std::vector<Item>& items, Size size) {
  double sum = 0;
  for (const Item& item : items) sum += static_cast<double>(size(item));
  return sum / static_cast<double>(items.size());
}

TEST(DataTest, SyntheticItemsAreWellFormedAndOfTheRealOnesSize) {
  for (const BinaryTree& tree : SyntheticBinaryTrees()) ExpectBinary(tree);
  for (const DependencyTree& tree : SyntheticDependencies()) ExpectRooted(tree);
  for (const Lattice& lattice : SyntheticLattices()) ExpectLattice(lattice);
  const auto words = [](const auto& item) { return item.words.size(); };
  EXPECT_NEAR(Mean(SyntheticSentences(), [](const Words& w) { return w.size(); }), 23, 2);
  EXPECT_NEAR(Mean(SyntheticBinaryTrees(), words), 19, 2);
  EXPECT_NEAR(Mean(SyntheticDependencies(), words), 12, 1.5);
  EXPECT_NEAR(Mean(SyntheticLattices(), words), 17, 2);
  EXPECT_NEAR(Mean(SyntheticLattices(), [](const Lattice& l) { return l.characters.size(); }), 54,
              4);
  EXPECT_NEAR(Mean(SyntheticTranslations(), [](const Translation& t) { return t.source.size(); }),
              26, 2);
  EXPECT_NEAR(Mean(SyntheticTranslations(), [](const Translation& t) { return t.target.size(); }),
              28.5, 3);
}

TEST(DataTest, WhatTheFolderHoldsIsWellFormed) {
  for (const BinaryTree& tree : SstTrees().items) ExpectBinary(tree);
  for (const DependencyTree& tree : EwtTrees().items) ExpectRooted(tree);
  for (const Lattice& lattice : WeiboLattices().items) ExpectLattice(lattice);
  for (const Words& words : WikigoldSentences().items) EXPECT_FALSE(words.empty());
  EXPECT_GE(EuroparlPairs().items.size(), 1000u);
}

TEST(DataTest, ASpreadHoldsTheSmallestAndTheLargest) {
  std::vector<int> items(1000);
  std::iota(items.rbegin(), items.rend(), 0);
  const auto value = [](int i) { return i; };
  EXPECT_EQ(Spread(items, 4, value), (std::vector<int>{0, 333, 666, 999}));
  EXPECT_EQ(Spread(items, 2000, value), items);
}

}  // namespace
}  // namespace cellbatch::zoo
