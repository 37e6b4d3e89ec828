// The PQ tree as one recursive function that looks at every node: O(n) a call, and short enough to be believed. The oracle
// of pq_tree_test; nothing else uses it.
#ifndef CELLBATCH_MEMPLAN_RECURSIVE_PQ_TREE_H_
#define CELLBATCH_MEMPLAN_RECURSIVE_PQ_TREE_H_

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cellbatch {

class RecursivePqTree {
 public:
  explicit RecursivePqTree(int num_leaves) : in_set_(num_leaves) {
    std::vector<Tree> leaves;
    for (int i = 0; i < num_leaves; ++i) leaves.push_back({Kind::kLeaf, i, {}});
    root_ = MakeP(std::move(leaves));
  }

  // Returns false, and changes nothing, when no order is left in which `leaves` stand together.
  bool Reduce(const std::vector<int>& leaves) {
    if (leaves.size() < 2) return true;
    in_set_.assign(in_set_.size(), false);
    for (int leaf : leaves) in_set_[leaf] = true;
    std::optional<Tree> reduced = AtRoot(root_, static_cast<int>(leaves.size()));
    if (!reduced.has_value()) return false;
    root_ = std::move(*reduced);
    return true;
  }

  // Two trees for the same orders have the same text: children of P-nodes are sorted, Q-nodes start with the smaller end.
  std::string Canonical() const { return Canonical(root_); }

 private:
  enum class Kind { kLeaf, kP, kQ };
  struct Tree {
    Kind kind;
    int leaf;
    std::vector<Tree> children;
  };
  using Trees = std::vector<Tree>;

  static Tree MakeP(Trees children) {
    if (children.size() == 1) return std::move(children[0]);
    return {Kind::kP, -1, std::move(children)};
  }
  static Tree MakeQ(Trees children) {
    return {children.size() == 2 ? Kind::kP : Kind::kQ, -1, std::move(children)};
  }

  // 0 empty, 1 partial, 2 full
  int Label(const Tree& tree) const {
    if (tree.kind == Kind::kLeaf) return in_set_[tree.leaf] ? 2 : 0;
    bool some = false, all = true;
    for (const Tree& child : tree.children) {
      const int label = Label(child);
      some |= label > 0;
      all &= label == 2;
    }
    return all ? 2 : some ? 1 : 0;
  }
  int Count(const Tree& tree) const {
    if (tree.kind == Kind::kLeaf) return in_set_[tree.leaf] ? 1 : 0;
    int count = 0;
    for (const Tree& child : tree.children) count += Count(child);
    return count;
  }
  static void Append(Trees& to, Trees from) {
    for (Tree& tree : from) to.push_back(std::move(tree));
  }
  static Trees Reversed(Trees trees) {
    std::reverse(trees.begin(), trees.end());
    return trees;
  }

  // The tree as neighbours, empty ones first, full ones last.
  std::optional<Trees> Line(const Tree& tree) const {
    if (Label(tree) != 1) return Trees{tree};
    Trees line, empty, full;
    if (tree.kind == Kind::kP) {
      std::optional<Trees> middle;
      for (const Tree& child : tree.children) {
        const int label = Label(child);
        if (label == 1 && middle.has_value()) return std::nullopt;
        if (label == 1 && !(middle = Line(child)).has_value()) return std::nullopt;
        if (label != 1) (label == 0 ? empty : full).push_back(child);
      }
      if (!empty.empty()) line.push_back(MakeP(empty));
      if (middle.has_value()) Append(line, *middle);
      if (!full.empty()) line.push_back(MakeP(full));
      return line;
    }
    Trees children = tree.children;
    if (Label(children.front()) > Label(children.back())) children = Reversed(children);
    int before = 0;
    for (const Tree& child : children) {
      const int label = Label(child);
      if (label < before || (label == 1 && before == 1)) return std::nullopt;
      before = label;
      std::optional<Trees> part = Line(child);
      if (!part.has_value()) return std::nullopt;
      Append(line, *part);
    }
    return line;
  }

  std::optional<Tree> AtRoot(const Tree& tree, int size) const {
    for (size_t i = 0; i < tree.children.size(); ++i) {
      if (Count(tree.children[i]) != size) continue;
      Tree copy = tree;
      std::optional<Tree> child = AtRoot(tree.children[i], size);
      if (!child.has_value()) return std::nullopt;
      copy.children[i] = std::move(*child);
      return copy;
    }
    return tree.kind == Kind::kQ ? AtRootQ(tree) : AtRootP(tree);
  }

  std::optional<Tree> AtRootP(const Tree& tree) const {
    if (Label(tree) == 2) return tree;
    Trees empty, full, partial;
    for (const Tree& child : tree.children) {
      const int label = Label(child);
      (label == 0 ? empty : label == 1 ? partial : full).push_back(child);
    }
    if (partial.size() > 2) return std::nullopt;
    if (partial.empty()) {
      empty.push_back(MakeP(full));
      return MakeP(empty);
    }
    Trees line;
    for (size_t i = 0; i < 2; ++i) {
      if (i == 1 && !full.empty()) line.push_back(MakeP(full));
      if (i >= partial.size()) continue;
      std::optional<Trees> part = Line(partial[i]);
      if (!part.has_value()) return std::nullopt;
      Append(line, i == 0 ? *part : Reversed(*part));
    }
    empty.push_back(MakeQ(line));
    return MakeP(empty);
  }

  std::optional<Tree> AtRootQ(const Tree& tree) const {
    Trees line;
    int stage = 0;  // 0 before the set, 1 in it, 2 behind it
    for (const Tree& child : tree.children) {
      const int label = Label(child);
      if (label != 0 && stage == 2) return std::nullopt;
      if (label == 0) {
        if (stage == 1) stage = 2;
        line.push_back(child);
        continue;
      }
      std::optional<Trees> part = Line(child);
      if (!part.has_value()) return std::nullopt;
      Append(line, stage == 0 ? *part : Reversed(*part));
      if (label == 1) {
        stage = stage == 0 ? 1 : 2;
      } else {
        stage = 1;
      }
    }
    return MakeQ(line);
  }

  static std::string Canonical(const Tree& tree) {
    if (tree.kind == Kind::kLeaf) return std::to_string(tree.leaf);
    std::vector<std::string> texts;
    for (const Tree& child : tree.children) texts.push_back(Canonical(child));
    if (tree.kind == Kind::kP) std::sort(texts.begin(), texts.end());
    if (tree.kind == Kind::kQ && texts.back() < texts.front())
      std::reverse(texts.begin(), texts.end());
    std::string text;
    for (const std::string& t : texts) text += (text.empty() ? "" : " ") + t;
    return tree.kind == Kind::kQ ? "[" + text + "]" : "(" + text + ")";
  }

  std::vector<bool> in_set_;
  Tree root_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_MEMPLAN_RECURSIVE_PQ_TREE_H_
