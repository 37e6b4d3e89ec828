#include "memplan/pq_tree.h"

#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "memplan/pq_reduction.h"

namespace cellbatch {

PqTree::PqTree(int num_leaves) : num_leaves_(num_leaves) {
  ABSL_RAW_CHECK(num_leaves >= 0, "a PQ tree of a negative number of leaves");
  nodes_.resize(num_leaves);
  for (Node& leaf : nodes_) leaf.kind = Kind::kLeaf;
  if (num_leaves == 1) root_ = 0;
  if (num_leaves < 2) return;
  root_ = num_leaves;
  Node& root = nodes_.emplace_back();
  root.kind = Kind::kP;
  root.num_children = num_leaves;
  root.end[0] = 0;
  for (NodeId leaf = 0; leaf < num_leaves; ++leaf) {
    nodes_[leaf].parent = root_;
    nodes_[leaf].link = {leaf - 1, leaf + 1 < num_leaves ? leaf + 1 : kNone};
  }
}

bool PqTree::Reduce(std::span<const NodeId> leaves) { return PqReduction(*this).Reduce(leaves); }

std::vector<PqTree::NodeId> PqTree::Children(NodeId node) const {
  std::vector<NodeId> children;
  const Node& n = nodes_[node];
  if (n.kind == Kind::kP) {
    for (NodeId c = n.end[0]; c != kNone; c = nodes_[c].link[1]) children.push_back(c);
  } else if (n.kind == Kind::kQ) {
    return Run({n.end[0], n.end[1]});
  }
  return children;
}

std::vector<PqTree::NodeId> PqTree::Run(const Root& root) const {
  if (root.is_node()) return {root.first};
  // Links do not say which way is right: both ways are walked in turns, so that the cost is that of the run.
  std::array<std::vector<NodeId>, 2> walked;
  std::array<NodeId, 2> before = {root.first, root.first};
  std::array<NodeId, 2> at = nodes_[root.first].link;
  for (int way = 0;; way = 1 - way) {
    if (at[way] == kNone) {
      ABSL_RAW_CHECK(at[1 - way] != kNone, "the ends of a run are not children of one Q-node");
      continue;
    }
    const NodeId here = at[way];
    walked[way].push_back(here);
    if (here == root.last) {
      walked[way].insert(walked[way].begin(), root.first);
      return std::move(walked[way]);
    }
    const Node& n = nodes_[here];
    at[way] = n.link[0] == before[way] ? n.link[1] : n.link[0];
    before[way] = here;
  }
}

std::vector<PqTree::NodeId> PqTree::Frontier() const {
  std::vector<NodeId> leaves, stack;
  leaves.reserve(num_leaves_);
  if (root_ != kNone) stack.push_back(root_);
  while (!stack.empty()) {
    const NodeId node = stack.back();
    stack.pop_back();
    if (nodes_[node].kind == Kind::kLeaf) {
      leaves.push_back(node);
      continue;
    }
    const std::vector<NodeId> children = Children(node);
    stack.insert(stack.end(), children.rbegin(), children.rend());
  }
  return leaves;
}

std::string PqTree::ToString() const {
  std::string text;
  std::vector<std::pair<NodeId, char>> stack;  // a node, or what to write
  if (root_ != kNone) stack.push_back({root_, 0});
  while (!stack.empty()) {
    const auto [node, symbol] = stack.back();
    stack.pop_back();
    if (symbol != 0) {
      text += symbol;
      continue;
    }
    if (nodes_[node].kind == Kind::kLeaf) {
      text += std::to_string(node);
      continue;
    }
    const bool is_q = nodes_[node].kind == Kind::kQ;
    const std::vector<NodeId> children = Children(node);
    text += is_q ? '[' : '(';
    stack.push_back({kNone, is_q ? ']' : ')'});
    for (size_t i = children.size(); i-- > 0;) {
      stack.push_back({children[i], 0});
      if (i > 0) stack.push_back({kNone, ' '});
    }
  }
  return text;
}

}  // namespace cellbatch
