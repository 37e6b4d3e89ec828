#include "memplan/pq_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <iostream>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "memplan/recursive_pq_tree.h"

namespace cellbatch {
namespace {

using NodeId = PqTree::NodeId;
using Set = std::vector<int>;
using Order = std::vector<int>;
constexpr uint64_t kSeed = 19760313;

// All frontiers of a subtree: every order of a P-node's children, both of a Q-node's.
std::vector<Order> Orders(const PqTree& tree, NodeId node) {
  if (tree.kind(node) == PqTree::Kind::kLeaf) return {{node}};
  std::vector<NodeId> children = tree.Children(node);
  std::vector<std::vector<NodeId>> arrangements;
  if (tree.kind(node) == PqTree::Kind::kQ) {
    arrangements = {children, {children.rbegin(), children.rend()}};
  } else {
    std::sort(children.begin(), children.end());
    do {
      arrangements.push_back(children);
    } while (std::next_permutation(children.begin(), children.end()));
  }
  std::vector<Order> all;
  for (const auto& arrangement : arrangements) {
    std::vector<Order> some = {{}};
    for (NodeId child : arrangement) {
      std::vector<Order> longer;
      for (const Order& left : some) {
        for (const Order& right : Orders(tree, child)) {
          longer.push_back(left);
          longer.back().insert(longer.back().end(), right.begin(), right.end());
        }
      }
      some = std::move(longer);
    }
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::string Canonical(const PqTree& tree, NodeId node) {
  if (tree.kind(node) == PqTree::Kind::kLeaf) return std::to_string(node);
  std::vector<std::string> texts;
  for (NodeId child : tree.Children(node)) texts.push_back(Canonical(tree, child));
  const bool is_q = tree.kind(node) == PqTree::Kind::kQ;
  if (!is_q) std::sort(texts.begin(), texts.end());
  if (is_q && texts.back() < texts.front()) std::reverse(texts.begin(), texts.end());
  std::string text;
  for (const std::string& t : texts) text += (text.empty() ? "" : " ") + t;
  return is_q ? "[" + text + "]" : "(" + text + ")";
}

std::set<int> LeavesBelow(const PqTree& tree, NodeId node) {
  if (tree.kind(node) == PqTree::Kind::kLeaf) return {node};
  std::set<int> leaves;
  for (NodeId child : tree.Children(node)) leaves.merge(LeavesBelow(tree, child));
  return leaves;
}

// Per inner node: its subtree's canonical text and the inner nodes in it.
struct Snapshot {
  std::map<NodeId, std::pair<std::string, std::vector<NodeId>>> nodes;

  static Snapshot Of(const PqTree& tree) {
    Snapshot snapshot;
    if (tree.num_leaves() > 1) snapshot.Take(tree, tree.root());
    return snapshot;
  }
  std::vector<NodeId> Take(const PqTree& tree, NodeId node) {
    if (tree.kind(node) == PqTree::Kind::kLeaf) return {};
    std::vector<NodeId> below = {node};
    for (NodeId child : tree.Children(node)) {
      for (NodeId inner : Take(tree, child)) below.push_back(inner);
    }
    nodes[node] = {Canonical(tree, node), below};
    return below;
  }
};

bool StandsTogether(const Order& order, const Set& set) {
  std::vector<bool> in(order.size(), false);
  for (int leaf : set) in[leaf] = true;
  int runs = 0;
  for (size_t i = 0; i < order.size(); ++i) runs += in[order[i]] && (i == 0 || !in[order[i - 1]]);
  return runs <= 1;
}

// Reduces, and holds the tree to everything its header promises about this one call.
bool ReduceChecked(PqTree& tree, const Set& set) {
  const Snapshot before = Snapshot::Of(tree);
  const std::string text = tree.ToString();
  const bool reduced = tree.Reduce(set);
  if (!reduced) {
    EXPECT_EQ(tree.ToString(), text) << "a failed Reduce changed the tree";
    EXPECT_TRUE(tree.changed().empty());
    return false;
  }
  EXPECT_TRUE(StandsTogether(tree.Frontier(), set));
  if (!set.empty()) {
    std::set<int> below;
    for (NodeId node : tree.Run(tree.pertinent_root())) below.merge(LeavesBelow(tree, node));
    EXPECT_EQ(below, std::set<int>(set.begin(), set.end())) << "the pertinent root is another";
  }
  const Snapshot after = Snapshot::Of(tree);
  const std::set<NodeId> changed(tree.changed().begin(), tree.changed().end());
  for (const auto& [node, was] : before.nodes) {
    const auto now = after.nodes.find(node);
    if (now != after.nodes.end() && now->second.first == was.first) continue;
    const bool named = std::any_of(was.second.begin(), was.second.end(),
                                   [&](NodeId inner) { return changed.contains(inner); });
    EXPECT_TRUE(named) << was.first << " changed and nothing below it was reported, by a set of "
                       << set.size();
  }
  return true;
}

// How many orders a tree stands for, by formula.
int64_t CountOrders(const PqTree& tree, NodeId node) {
  const std::vector<NodeId> children = tree.Children(node);
  int64_t count = tree.kind(node) == PqTree::Kind::kQ ? 2 : 1;
  for (size_t i = 0; i < children.size(); ++i) {
    count *= CountOrders(tree, children[i]) * (tree.kind(node) == PqTree::Kind::kP ? i + 1 : 1);
  }
  return count;
}

// The orders of n things, and for each set of them (a bit mask) the orders in which it stands together, as bits.
class BruteForce {
 public:
  explicit BruteForce(int n) : n_(n) {
    Order order(n);
    std::iota(order.begin(), order.end(), 0);
    do {
      index_[order] = static_cast<int>(orders_.size());
      orders_.push_back(order);
    } while (std::next_permutation(order.begin(), order.end()));
    all_ = BitsOf([](const Order&) { return true; });
    for (uint32_t mask = 0; mask < (1u << n); ++mask) {
      together_.push_back(BitsOf([&](const Order& o) { return StandsTogether(o, SetOf(mask)); }));
    }
  }
  Set SetOf(uint32_t mask) const {
    Set set;
    for (int i = 0; i < n_; ++i) {
      if (mask >> i & 1) set.push_back(i);
    }
    return set;
  }

  // One family of sets, reduced one after the other by both trees, and compared after each. With `orders`, order by order;
  // else by their number and by the canonical text of the tree.
  void Compare(const std::vector<uint32_t>& family, bool orders) {
    PqTree tree(n_);
    RecursivePqTree oracle(n_);
    Bits left = all_;
    for (uint32_t mask : family) {
      Bits next = left;
      int64_t num_left = 0;
      for (size_t i = 0; i < left.size(); ++i)
        num_left += std::popcount(next[i] &= together_[mask][i]);
      ASSERT_EQ(orders ? ReduceChecked(tree, SetOf(mask)) : tree.Reduce(SetOf(mask)), num_left > 0)
          << tree.ToString() << " by mask " << mask;
      ASSERT_EQ(oracle.Reduce(SetOf(mask)), num_left > 0);
      ASSERT_EQ(Canonical(tree, tree.root()), oracle.Canonical());
      if (num_left == 0) continue;
      left = next;
      ASSERT_EQ(CountOrders(tree, tree.root()), num_left) << tree.ToString();
      if (orders) CompareOrders(tree, left);
    }
  }

 private:
  using Bits = std::vector<uint64_t>;

  template <typename Predicate>
  Bits BitsOf(const Predicate& predicate) const {
    Bits bits((orders_.size() + 63) / 64, 0);
    for (size_t i = 0; i < orders_.size(); ++i)
      bits[i / 64] |= uint64_t{predicate(orders_[i])} << (i % 64);
    return bits;
  }

  void CompareOrders(const PqTree& tree, const Bits& left) {
    Bits mine(left.size(), 0);
    for (const Order& order : Orders(tree, tree.root())) {
      const int at = index_.at(order);
      ASSERT_FALSE(mine[at / 64] >> (at % 64) & 1) << "an order twice";
      mine[at / 64] |= uint64_t{1} << (at % 64);
    }
    ASSERT_EQ(mine, left) << tree.ToString();
  }

  int n_;
  std::vector<Order> orders_;
  std::map<Order, int> index_;
  Bits all_;
  std::vector<Bits> together_;
};

TEST(PqTreeTest, AllFamiliesOfUpToThreeSetsOfUpToFiveThingsLeaveExactlyTheRightOrders) {
  for (int n = 1; n <= 5; ++n) {
    BruteForce brute(n);
    const uint32_t masks = 1u << n;
    for (uint32_t a = 0; a < masks; ++a) {
      for (uint32_t b = 0; b < masks; ++b) {
        for (uint32_t c = 0; c < masks; ++c)
          ASSERT_NO_FATAL_FAILURE(brute.Compare({a, b, c}, true));
      }
    }
  }
}

TEST(PqTreeTest, RandomFamiliesOfSixAndSevenThingsLeaveExactlyTheRightOrders) {
  std::cout << "seed " << kSeed << "\n";
  std::mt19937_64 random(kSeed);
  for (int n : {6, 7}) {
    BruteForce brute(n);
    for (int i = 0; i < 100'000; ++i) {
      std::vector<uint32_t> family(1 + random() % 6);
      for (uint32_t& mask : family) {
        // Mostly pairs and triples: large sets leave little to go wrong.
        mask = random() % (1u << n);
        if (random() % 2) mask &= random() % (1u << n);
      }
      ASSERT_NO_FATAL_FAILURE(brute.Compare(family, i % (n == 6 ? 10 : 50) == 0));
    }
  }
}

TEST(PqTreeTest, KnownCasesHaveTheKnownNumberOfOrders) {
  const auto count = [](int n, const std::vector<Set>& family) {
    PqTree tree(n);
    for (const Set& set : family) EXPECT_TRUE(tree.Reduce(set));
    return Orders(tree, tree.root()).size();
  };
  EXPECT_EQ(count(5, {{0, 1}, {1, 2}}), 12u);
  EXPECT_EQ(count(4, {{0, 1, 2}, {0, 1}}), 8u);
  EXPECT_EQ(count(4, {{0, 1}, {2, 3}, {1, 2}}), 2u);
  PqTree tree(5);
  EXPECT_TRUE(tree.Reduce(Set{0, 1}));
  EXPECT_TRUE(tree.Reduce(Set{1, 2}));
  EXPECT_FALSE(tree.Reduce(Set{0, 2}));
}

TEST(PqTreeTest, TreesOfNoneAndOneLeafAreReducedByAnything) {
  PqTree none(0), one(1);
  EXPECT_TRUE(none.Reduce(Set{}));
  EXPECT_TRUE(none.Frontier().empty());
  EXPECT_EQ(none.ToString(), "");
  EXPECT_TRUE(one.Reduce(Set{0}));
  EXPECT_EQ(one.Frontier(), Order{0});
  EXPECT_TRUE(one.pertinent_root().is_node());
}

TEST(PqTreeTest, IntervalsOfAHiddenOrderNeverFailAndAllOfThemLeaveItAlone) {
  std::cout << "seed " << kSeed << "\n";
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 10'000; ++round) {
    const int n = 10;
    Order hidden(n);
    std::iota(hidden.begin(), hidden.end(), 0);
    std::shuffle(hidden.begin(), hidden.end(), random);
    PqTree tree(n);
    for (int i = 0; i < 20; ++i) {
      int a = random() % n, b = random() % n;
      if (a > b) std::swap(a, b);
      ASSERT_TRUE(tree.Reduce(Set(hidden.begin() + a, hidden.begin() + b + 1)));
    }
    for (int i = 0; i + 1 < n; ++i) ASSERT_TRUE(tree.Reduce(Set{hidden[i], hidden[i + 1]}));
    Order front = tree.Frontier();
    if (front.front() != hidden.front()) std::reverse(front.begin(), front.end());
    ASSERT_EQ(front, hidden);
  }
}

TEST(PqTreeTest, LongSequencesOfReductionsStayEqualToTheRecursiveForm) {
  std::cout << "seed " << kSeed << "\n";
  std::mt19937_64 random(kSeed);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    const int n = 20 + random() % 60;
    Order hidden(n);
    std::iota(hidden.begin(), hidden.end(), 0);
    std::shuffle(hidden.begin(), hidden.end(), random);
    PqTree tree(n);
    RecursivePqTree oracle(n);
    for (int i = 0; i < 60; ++i) {
      int a = random() % n, b = std::min<int>(n - 1, a + random() % 8);
      Set set(hidden.begin() + a, hidden.begin() + b + 1);
      // Now and then something foreign, which mostly cannot be.
      const int foreign = hidden[random() % n];
      if (random() % 8 == 0 && std::find(set.begin(), set.end(), foreign) == set.end())
        set.push_back(foreign);
      const bool reduced = ReduceChecked(tree, set);
      refused += !reduced;
      ASSERT_EQ(reduced, oracle.Reduce(set));
      ASSERT_EQ(Canonical(tree, tree.root()), oracle.Canonical());
    }
  }
  EXPECT_GT(refused, 100) << "nothing was refused: the test tests half";
}

}  // namespace
}  // namespace cellbatch
