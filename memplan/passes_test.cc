#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <numeric>
#include <random>

#include "memplan/broadcast_pass.h"
#include "memplan/order_pass.h"
#include "memplan/order_union_find.h"

namespace cellbatch {
namespace {

constexpr uint64_t kSeed = 1977;
using Leaves = std::vector<PqTree::NodeId>;

TEST(BroadcastPassTest, WhatStandsTogetherOnOneSideStandsTogetherOnTheOther) {
  PqTree tree(8);
  for (const Leaves& set : {Leaves{0, 1, 2, 3}, Leaves{4, 5, 6, 7}, Leaves{0, 1}, Leaves{6, 7}}) {
    ASSERT_TRUE(tree.Reduce(set));
  }
  const std::vector<AlignedPair> pairs = {{{0, 1, 2, 3}, {4, 5, 6, 7}}};
  ASSERT_TRUE(BroadcastConstraints(pairs, tree));
  EXPECT_EQ(tree.ToString(), "(((4 5) (6 7)) ((2 3) (0 1)))");
}

TEST(BroadcastPassTest, ConstraintsTravelThroughAChainOfPairsAgainstItsDirection) {
  // 0..3 -> 4..7 -> 8..11, and the only constraint sits at the far end.
  PqTree tree(12);
  ASSERT_TRUE(tree.Reduce(Leaves{8, 9}));
  ASSERT_TRUE(tree.Reduce(Leaves{9, 10}));
  const std::vector<AlignedPair> pairs = {{{0, 1, 2, 3}, {4, 5, 6, 7}},
                                          {{4, 5, 6, 7}, {8, 9, 10, 11}}};
  ASSERT_TRUE(BroadcastConstraints(pairs, tree));
  for (int first : {0, 4, 8}) {
    EXPECT_FALSE(PqTree(tree).Reduce(Leaves{first, first + 2}))
        << "operand at " << first << " is free still";
    EXPECT_TRUE(PqTree(tree).Reduce(Leaves{first + 2, first + 3}));
  }
}

TEST(BroadcastPassTest, ShapesThatCannotBeAlikeAreRefused) {
  PqTree tree(6);
  for (const Leaves& set : {Leaves{0, 1}, Leaves{1, 2}, Leaves{3, 5}, Leaves{4, 5}})
    ASSERT_TRUE(tree.Reduce(set));
  // 1 is between 0 and 2, 5 between 3 and 4: position 1 against position 2.
  const std::vector<AlignedPair> pairs = {{{0, 1, 2}, {3, 4, 5}}};
  EXPECT_FALSE(BroadcastConstraints(pairs, tree));
}

TEST(OrderPassTest, ContradictoryDirectionsHaveNoOrder) {
  const std::vector<AlignedPair> forward = {{{0, 1}, {2, 3}}},
                                 both = {{{0, 1}, {2, 3}}, {{0, 1}, {3, 2}}};
  PqTree tree(4);
  ASSERT_TRUE(tree.Reduce(Leaves{0, 1}));
  ASSERT_TRUE(tree.Reduce(Leaves{2, 3}));
  EXPECT_EQ(DecideOrder(forward, {}, tree), (Leaves{0, 1, 2, 3}));
  EXPECT_EQ(DecideOrder(both, {}, tree), std::nullopt);
}

TEST(OrderPassTest, PermutationsOfAPNodeThatComeRoundToAnotherAreAContradiction) {
  PqTree tree(6);
  ASSERT_TRUE(tree.Reduce(Leaves{0, 1, 2}));
  ASSERT_TRUE(tree.Reduce(Leaves{3, 4, 5}));
  const std::vector<AlignedPair> twice = {{{0, 1, 2}, {4, 5, 3}}, {{4, 5, 3}, {0, 1, 2}}};
  EXPECT_TRUE(DecideOrder(twice, {}, tree).has_value());
  const std::vector<AlignedPair> turned = {{{0, 1, 2}, {4, 5, 3}}, {{0, 1, 2}, {3, 4, 5}}};
  EXPECT_EQ(DecideOrder(turned, {}, tree), std::nullopt);
}

TEST(OrderPassTest, AFixedRunDecidesTheDirectionOfWhatFollowsIt) {
  PqTree tree(6);
  for (const Leaves& set : {Leaves{2, 1}, Leaves{1, 0}}) ASSERT_TRUE(tree.Reduce(set));
  const std::vector<AlignedPair> pairs = {{{0, 1, 2}, {3, 4, 5}}};
  ASSERT_TRUE(tree.Reduce(Leaves{3, 4, 5}));
  ASSERT_TRUE(BroadcastConstraints(pairs, tree));
  const std::vector<Leaves> fixed = {{2, 1, 0}};
  EXPECT_EQ(DecideOrder(pairs, fixed, tree), (Leaves{2, 1, 0, 5, 4, 3}));
}

// Random relations among hidden permutations: what is true is always accepted, what is false is refused once it is implied.
TEST(OrderUnionFindTest, KnowsExactlyTheRelationsThatFollow) {
  std::cout << "seed " << kSeed << "\n";
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 200; ++round) {
    constexpr int kNodes = 12, kChildren = 4;
    std::vector<std::vector<int32_t>> order(kNodes, std::vector<int32_t>(kChildren));
    for (auto& o : order) {
      std::iota(o.begin(), o.end(), 0);
      std::shuffle(o.begin(), o.end(), random);
    }
    const auto relation = [&](int x, int y) {
      Permutation p;
      p.image.resize(kChildren);
      for (int i = 0; i < kChildren; ++i) p.image[order[x][i]] = order[y][i];
      return p;
    };
    OrderUnionFind<Permutation> sets(kNodes);
    for (int i = 0; i < 20; ++i) {
      const int x = random() % kNodes, y = random() % kNodes;
      Permutation wrong = relation(x, y);
      std::swap(wrong.image[0], wrong.image[1]);
      if (sets.Find(x).root == sets.Find(y).root) {
        ASSERT_FALSE(sets.Relate(x, y, wrong));
      }
      ASSERT_TRUE(sets.Relate(x, y, relation(x, y)));
    }
    for (int x = 0; x < kNodes; ++x) {
      const auto found = sets.Find(x);
      ASSERT_TRUE(found.from_root.SameAs(relation(found.root, x)));
    }
  }
}

}  // namespace
}  // namespace cellbatch
