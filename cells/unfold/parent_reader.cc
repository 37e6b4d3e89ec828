#include "cells/unfold/parent_reader.h"

#include <fmt/format.h>

namespace cellbatch {
namespace {

constexpr int32_t kNone = -1;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

std::string OfTree(const Forest& forest, int64_t tree) {
  return forest.several ? fmt::format("tree {}: ", tree) : "";
}

absl::Status ParentReader::Wrong(std::string_view what) const {
  return WrongInput(kParentInput, fmt::format("{}{}", OfTree(forest_, tree_), what));
}

absl::Status ParentReader::Read(absl::Span<const int32_t> parents) {
  tree_ = static_cast<int64_t>(forest_.trees.size());
  int32_t root = kNone;
  if (absl::Status s = CountChildren(parents, root); !s.ok()) return s;
  FillChildren(parents);
  // Parents before children: read backwards, children before parents.
  order_.assign(1, root);
  size_t reached = 1;
  for (size_t at = 0; at < order_.size(); ++at) {
    for (const int32_t child : ChildrenOf(order_[at])) {
      ++reached;
      if (!ChildrenOf(child).empty()) order_.push_back(child);
    }
  }
  if (reached != parents.size()) return Unreached(parents);
  if (parents.size() == 1) order_.clear();
  Emit(parents.size());
  return absl::OkStatus();
}

absl::Status ParentReader::CountChildren(absl::Span<const int32_t> parents, int32_t& root) {
  const int32_t nodes = static_cast<int32_t>(parents.size());
  first_.assign(parents.size() + 1, 0);
  for (int32_t i = 0; i < nodes; ++i) {
    const int32_t parent = parents[Index(i)];
    if (parent < -1 || parent >= nodes) {
      return Wrong(fmt::format("the parent of node {} is {}, nodes are 0 to {} (-1: the root)", i,
                               parent, nodes - 1));
    }
    if (parent == i) return Wrong(fmt::format("node {} is its own parent", i));
    if (parent >= 0) {
      ++first_[Index(parent) + 1];
    } else if (root == kNone) {
      root = i;
    } else {
      return Wrong(fmt::format("nodes {} and {} are both roots (parent -1)", root, i));
    }
  }
  if (root != kNone) return absl::OkStatus();
  return Wrong(fmt::format("none of {} nodes is the root (parent -1)", nodes));
}

void ParentReader::FillChildren(absl::Span<const int32_t> parents) {
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  children_.resize(parents.size());
  next_.assign(first_.begin(), first_.end() - 1);
  for (size_t i = 0; i < parents.size(); ++i) {
    if (parents[i] >= 0) children_[Index(next_[Index(parents[i])]++)] = static_cast<int32_t>(i);
  }
}

// Parents in range and one root: what is not reached runs, or hangs below what runs, in a circle.
absl::Status ParentReader::Unreached(absl::Span<const int32_t> parents) const {
  std::vector<bool> reached(parents.size(), false);
  for (const int32_t node : order_) {
    reached[Index(node)] = true;
    for (const int32_t child : ChildrenOf(node)) reached[Index(child)] = true;
  }
  size_t lost = 0;
  while (reached[lost]) ++lost;
  return Wrong(
      fmt::format("node {} does not lead to the root: its parents (the first is {}) run in "
                  "a circle",
                  lost, parents[lost]));
}

// Leaves of one parent next to each other.
void ParentReader::Emit(size_t nodes) {
  rank_.resize(nodes);
  int32_t next = 0;
  const auto number = [&](int32_t node) {
    rank_[Index(node)] = next++;
    forest_.own_numbers.push_back(node);
  };
  if (order_.empty()) number(0);
  for (size_t at = order_.size(); at-- > 0;) {
    for (const int32_t child : ChildrenOf(order_[at])) {
      if (ChildrenOf(child).empty()) number(child);
    }
  }
  const int32_t leaves = next;
  for (size_t at = order_.size(); at-- > 0;) {
    number(order_[at]);
    for (const int32_t child : ChildrenOf(order_[at])) {
      forest_.own_children.push_back(rank_[Index(child)]);
    }
    forest_.own_child_ends.push_back(static_cast<int32_t>(forest_.own_children.size()));
  }
  forest_.trees.push_back({leaves, next - leaves});
}

}  // namespace cellbatch
