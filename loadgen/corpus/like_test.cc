#include "loadgen/corpus/like.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "loadgen/corpus/shapes.h"

namespace cellbatch::corpus {
namespace {

// Of the real files (shared/data, as loadgen/README.md lists them): mean, p50, p90, p99, max.
void ExpectLike(const Statistics& made, const Statistics& real, double mean_within,
                double p99_within) {
  EXPECT_NEAR(made.mean, real.mean, mean_within * real.mean);
  EXPECT_NEAR(made.p50, real.p50, std::max(1.0, 0.1 * real.p50));
  EXPECT_NEAR(made.p90, real.p90, std::max(1.0, 0.1 * real.p90));
  EXPECT_NEAR(made.p99, real.p99, std::max(1.0, p99_within * real.p99));
}

const auto kWords = [](const auto& item) { return item.words.size(); };
const auto kSelf = [](const Words& words) { return words.size(); };
const auto kCharacters = [](const Lattice& lattice) { return lattice.characters.size(); };
const auto kSource = [](const Translation& pair) { return pair.source.size(); };
const auto kTarget = [](const Translation& pair) { return pair.target.size(); };

TEST(LikeTest, SizesHaveTheStatisticsOfTheRealOnes) {
  ExpectLike(StatisticsOf(SentencesLikeWikigold(), kSelf), {23.0, 21, 39, 68, 144}, 0.03, 0.03);
  ExpectLike(StatisticsOf(PairsLikeEuroparl(), kSource), {26.5, 23, 49, 83, 153}, 0.03, 0.03);
  ExpectLike(StatisticsOf(PairsLikeEuroparl(), kTarget), {28.5, 24, 53, 84, 147}, 0.05, 0.15);
  ExpectLike(StatisticsOf(TreesLikeSst(), kWords), {19.3, 19, 31, 42, 48}, 0.03, 0.03);
  ExpectLike(StatisticsOf(TreesLikeEwt(), kWords), {12.1, 9, 26, 49, 81}, 0.03, 0.03);
  ExpectLike(StatisticsOf(LatticesLikeWeibo(), kCharacters), {53.9, 44, 116, 145, 175}, 0.03, 0.03);
}

TEST(LikeTest, ShapesHaveTheStatisticsOfTheRealOnes) {
  ExpectLike(StatisticsOf(TreesLikeSst(), Height), {9.9, 10, 15, 21, 28}, 0.05, 0.15);
  ExpectLike(StatisticsOf(TreesLikeEwt(), Depth), {2.8, 3, 5, 8, 12}, 0.05, 0.15);
  ExpectLike(StatisticsOf(LatticesLikeWeibo(), kWords), {16.7, 12, 38, 55, 158}, 0.05, 0.15);
}

// Children before parents, every node but the last somebody's child exactly once.
TEST(LikeTest, BinaryTreesAreTrees) {
  for (const BinaryTree& tree : TreesLikeSst()) {
    const size_t leaves = tree.words.size();
    ASSERT_EQ(tree.children.size() + 1, leaves);
    std::vector<int> parents(2 * leaves - 1);
    for (size_t k = 0; k < tree.children.size(); ++k) {
      for (const int32_t child : tree.children[k]) {
        ASSERT_LT(static_cast<size_t>(child), leaves + k);
        ++parents[child];
      }
    }
    EXPECT_EQ(std::count(parents.begin(), parents.end() - 1, 1), 2 * std::ssize(tree.words) - 2);
    EXPECT_EQ(parents.back(), 0);
  }
}

TEST(LikeTest, DependencyTreesHaveOneRootThatEveryWordLeadsTo) {
  for (const DependencyTree& tree : TreesLikeEwt()) {
    ASSERT_EQ(tree.words.size(), tree.parent.size());
    EXPECT_EQ(std::count(tree.parent.begin(), tree.parent.end(), -1), 1);
    for (size_t i = 0; i < tree.parent.size(); ++i) {
      int32_t node = static_cast<int32_t>(i);
      size_t steps = 0;
      while (tree.parent[node] >= 0 && steps <= tree.parent.size()) {
        node = tree.parent[node];
        ++steps;
      }
      ASSERT_LT(steps, tree.parent.size()) << "word " << i << " has no way to the root";
    }
  }
}

TEST(LikeTest, WordsOfLatticesSpanCharactersAndComeByTheirEnd) {
  for (const Lattice& lattice : LatticesLikeWeibo()) {
    const auto n = static_cast<int32_t>(lattice.characters.size());
    int32_t last = 0;
    for (const auto& [start, end, id] : lattice.words) {
      EXPECT_TRUE(start >= 0 && start + 2 <= end && end <= n && id >= 0);
      EXPECT_GE(end, last);
      last = end;
    }
  }
}

TEST(LikeTest, TheItemsAreTheSameEveryTime) {
  EXPECT_EQ(SentencesLikeWikigold(), SentencesLikeWikigold());
  const auto one = LatticesLikeWeibo(), two = LatticesLikeWeibo();
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].words, two[i].words);
  }
}

}  // namespace
}  // namespace cellbatch::corpus
