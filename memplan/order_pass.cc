#include "memplan/order_pass.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "memplan/order_union_find.h"

namespace cellbatch {
namespace {

using NodeId = PqTree::NodeId;

// A node, or neighbouring children of one, seen from a pair.
struct View {
  NodeId node;   // whose order is at stake
  bool ordered;  // a reversal is, else a permutation
  std::vector<NodeId> children;
};

class OrderPass {
 public:
  explicit OrderPass(PqTree& tree)
      : tree_(tree),
        anchor_(tree.num_node_ids()),
        directions_(tree.num_node_ids() + 1),
        permutations_(tree.num_node_ids()),
        children_(tree.num_node_ids()),
        parent_(tree.num_node_ids(), PqTree::kNone),
        index_(tree.num_node_ids(), 0),
        smallest_(tree.num_node_ids(), 0) {
    for (auto& key : key_) key.resize(tree.num_node_ids());
    Walk();
  }

  // ParseEquivNodeOrderPair, and Union of what it finds.
  bool Relate(const AlignedPair& pair) {
    const PqTree::Root left = RootOf(pair.left), right = RootOf(pair.right);
    SetKeys(0, left, pair.left);
    SetKeys(1, right, pair.right);
    return Relate(ViewOf(left), ViewOf(right));
  }

  // A run that arrives in its order: its node's direction is that of the anchor, which is always forward.
  bool Fix(const std::vector<NodeId>& run) {
    if (run.size() < 2) return true;
    const View view = ViewOf(RootOf(run));
    if (view.children.front() == run.front())
      return directions_.Relate(anchor_, view.node, {false});
    if (view.children.front() == run.back()) return directions_.Relate(anchor_, view.node, {true});
    return false;
  }

  // GetLeafOrder.
  std::vector<NodeId> Leaves() {
    std::vector<NodeId> leaves, stack;
    if (tree_.root() != PqTree::kNone) stack.push_back(tree_.root());
    while (!stack.empty()) {
      const NodeId node = stack.back();
      stack.pop_back();
      if (tree_.kind(node) == PqTree::Kind::kLeaf) {
        leaves.push_back(node);
        continue;
      }
      const std::vector<NodeId> children = IsOrdered(node) ? Directed(node) : Permuted(node);
      stack.insert(stack.end(), children.rbegin(), children.rend());
    }
    return leaves;
  }

 private:
  // Of the leaves below a node, seen from one side of a pair: two disjoint or nested sets are equal iff their keys are.
  struct Key {
    int32_t first, count;
    friend bool operator==(const Key&, const Key&) = default;
  };

  void Walk() {
    std::vector<NodeId> preorder;
    if (tree_.root() != PqTree::kNone) preorder.push_back(tree_.root());
    for (size_t i = 0; i < preorder.size(); ++i) {
      const NodeId node = preorder[i];
      children_[node] = tree_.Children(node);
      for (size_t c = 0; c < children_[node].size(); ++c) {
        const NodeId child = children_[node][c];
        parent_[child] = node;
        index_[child] = static_cast<int32_t>(c);
        preorder.push_back(child);
      }
    }
    for (size_t i = preorder.size(); i-- > 0;) {
      const NodeId node = preorder[i];
      smallest_[node] =
          tree_.kind(node) == PqTree::Kind::kLeaf ? node : smallest_[children_[node][0]];
      for (NodeId child : children_[node])
        smallest_[node] = std::min(smallest_[node], smallest_[child]);
    }
  }

  // With two children a P-node is a Q-node.
  bool IsOrdered(NodeId node) const {
    return tree_.kind(node) == PqTree::Kind::kQ || children_[node].size() == 2;
  }

  PqTree::Root RootOf(const std::vector<NodeId>& leaves) {
    tree_.Reduce(leaves);  // it is satisfied: it only says where
    return tree_.pertinent_root();
  }

  View ViewOf(const PqTree::Root& root) const {
    if (root.is_node()) return {root.first, IsOrdered(root.first), children_[root.first]};
    const NodeId q = parent_[root.first];
    const auto [low, high] = std::minmax(index_[root.first], index_[root.last]);
    return {q, true, {children_[q].begin() + low, children_[q].begin() + high + 1}};
  }

  void SetKeys(int side, const PqTree::Root& root, const std::vector<NodeId>& operand) {
    std::vector<Key>& key = key_[side];
    for (size_t i = 0; i < operand.size(); ++i) key[operand[i]] = {static_cast<int32_t>(i), 1};
    std::vector<NodeId> below;
    if (root.is_node()) {
      below.push_back(root.first);
    } else {
      below = ViewOf(root).children;
    }
    for (size_t i = 0; i < below.size(); ++i) {
      const std::vector<NodeId>& children = children_[below[i]];
      below.insert(below.end(), children.begin(), children.end());
    }
    for (size_t i = below.size(); i-- > 0;) {
      if (children_[below[i]].empty()) continue;
      Key sum = {INT32_MAX, 0};
      for (NodeId child : children_[below[i]]) {
        sum = {std::min(sum.first, key[child].first), sum.count + key[child].count};
      }
      key[below[i]] = sum;
    }
  }

  bool Relate(const View& left, const View& right) {
    std::vector<std::pair<View, View>> stack = {{left, right}};
    while (!stack.empty()) {
      const auto [l, r] = std::move(stack.back());
      stack.pop_back();
      if (l.children.empty() && r.children.empty()) continue;  // leaves
      std::vector<int32_t> match;                              // per child of l, the child of r
      if (l.ordered != r.ordered || !Match(l, r, match)) return false;
      if (l.ordered) {
        if (!directions_.Relate(l.node, r.node, {match[0] != 0})) return false;
      } else if (!permutations_.Relate(l.node, r.node, {match})) {
        return false;
      }
      for (size_t i = 0; i < match.size(); ++i) {
        const NodeId a = l.children[i], b = r.children[match[i]];
        stack.push_back({ViewOf({a, a}), ViewOf({b, b})});
      }
    }
    return true;
  }

  // The child of r that covers the same positions, for each child of l; in order, forwards or backwards, where order counts.
  bool Match(const View& l, const View& r, std::vector<int32_t>& match) {
    const size_t n = l.children.size();
    if (r.children.size() != n) return false;
    match.resize(n);
    if (l.ordered) {
      const bool reversed = !(key_[0][l.children[0]] == key_[1][r.children[0]]);
      for (size_t i = 0; i < n; ++i) match[i] = static_cast<int32_t>(reversed ? n - 1 - i : i);
    } else {
      std::vector<std::pair<int32_t, int32_t>> firsts;  // first position, child of r
      for (size_t i = 0; i < n; ++i)
        firsts.push_back({key_[1][r.children[i]].first, static_cast<int32_t>(i)});
      std::sort(firsts.begin(), firsts.end());
      for (size_t i = 0; i < n; ++i) {
        const auto at = std::lower_bound(firsts.begin(), firsts.end(),
                                         std::pair(key_[0][l.children[i]].first, 0));
        if (at == firsts.end()) return false;
        match[i] = at->second;
      }
    }
    for (size_t i = 0; i < n; ++i) {
      if (!(key_[0][l.children[i]] == key_[1][r.children[match[i]]])) return false;
    }
    return true;
  }

  std::vector<NodeId> Directed(NodeId node) {
    const auto found = directions_.Find(node);
    const auto anchor = directions_.Find(anchor_);
    bool reversed = found.from_root.reversed;
    if (found.root == anchor.root) {
      reversed ^= anchor.from_root.reversed;
    } else {
      const std::vector<NodeId>& decider = children_[found.root];
      reversed ^= smallest_[decider.back()] < smallest_[decider.front()];
    }
    std::vector<NodeId> children = children_[node];
    if (reversed) std::reverse(children.begin(), children.end());
    return children;
  }

  std::vector<NodeId> Permuted(NodeId node) {
    const auto found = permutations_.Find(node);
    const std::vector<NodeId>& decider = children_[found.root];
    std::vector<int32_t> order(decider.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
    std::sort(order.begin(), order.end(),
              [&](int32_t a, int32_t b) { return smallest_[decider[a]] < smallest_[decider[b]]; });
    std::vector<NodeId> children;
    for (int32_t i : order) children.push_back(children_[node][found.from_root.Of(i)]);
    return children;
  }

  PqTree& tree_;
  const int32_t anchor_;  // the direction "forward"
  OrderUnionFind<Reversal> directions_;
  OrderUnionFind<Permutation> permutations_;
  std::vector<std::vector<NodeId>> children_;
  std::vector<NodeId> parent_;
  std::vector<int32_t> index_;           // among the parent's children
  std::vector<NodeId> smallest_;         // leaf below
  std::array<std::vector<Key>, 2> key_;  // per side of the pair at hand, per node below its operand
};

}  // namespace

std::optional<std::vector<NodeId>> DecideOrder(std::span<const AlignedPair> pairs,
                                               std::span<const std::vector<NodeId>> fixed,
                                               PqTree& tree) {
  OrderPass pass(tree);
  for (const std::vector<NodeId>& run : fixed) {
    if (!pass.Fix(run)) return std::nullopt;
  }
  for (const AlignedPair& pair : pairs) {
    if (!pass.Relate(pair)) return std::nullopt;
  }
  return pass.Leaves();
}

}  // namespace cellbatch
