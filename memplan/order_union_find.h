// Union-find whose links carry how orders relate (ED-Batch, algorithm 6): "whatever order x has, y has it reversed", or
// "... with its children permuted so".
//
//      Q5 --reversed--> Q2 --as is--> Q9         Find(Q5) = (Q9, reversed)
//
// order(x) = t(x) applied to order(parent of x), with t in Z2 for Q-nodes and in a symmetric group for P-nodes. Near-constant
// amortised (times the length of a permutation). One thread.
#ifndef CELLBATCH_MEMPLAN_ORDER_UNION_FIND_H_
#define CELLBATCH_MEMPLAN_ORDER_UNION_FIND_H_

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace cellbatch {

// Of the children of a Q-node: as they are stored, or backwards.
struct Reversal {
  bool reversed = false;

  // First `before`, then this one.
  Reversal After(const Reversal& before) const { return {reversed != before.reversed}; }
  Reversal Inverse() const { return *this; }
  bool SameAs(const Reversal& other) const { return reversed == other.reversed; }
};

// Of the children of a P-node: child i of one stands where child image[i] of the other stands. Empty: child i.
struct Permutation {
  std::vector<int32_t> image;

  int32_t Of(int32_t i) const { return image.empty() ? i : image[i]; }
  Permutation After(const Permutation& before) const {
    if (before.image.empty()) return *this;
    Permutation result = before;
    for (int32_t& i : result.image) i = Of(i);
    return result;
  }
  Permutation Inverse() const {
    Permutation result = *this;
    for (size_t i = 0; i < image.size(); ++i) result.image[image[i]] = static_cast<int32_t>(i);
    return result;
  }
  bool SameAs(const Permutation& other) const {
    for (size_t i = 0; i < std::max(image.size(), other.image.size()); ++i) {
      if (Of(i) != other.Of(i)) return false;
    }
    return true;
  }
};

template <typename Transform>
class OrderUnionFind {
 public:
  struct Found {
    int32_t root;
    Transform from_root;  // order(x) = from_root applied to order(root)
  };

  explicit OrderUnionFind(int32_t size) : parent_(size), size_(size, 1), from_parent_(size) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  Found Find(int32_t x) {
    const int32_t parent = parent_[x];
    if (parent == x) return {x, Transform{}};
    if (parent_[parent] == parent) return {parent, from_parent_[x]};
    // Linking by size keeps this as deep as a logarithm.
    Found above = Find(parent);
    from_parent_[x] = from_parent_[x].After(above.from_root);
    parent_[x] = above.root;
    return {above.root, from_parent_[x]};
  }

  // From now on order(y) = y_from_x applied to order(x). False: what is known already says otherwise; nothing changes.
  bool Relate(int32_t x, int32_t y, const Transform& y_from_x) {
    Found a = Find(x), b = Find(y);
    const Transform y_from_a = y_from_x.After(a.from_root);
    if (a.root == b.root) return b.from_root.SameAs(y_from_a);
    Transform b_from_a = b.from_root.Inverse().After(y_from_a);
    if (size_[a.root] < size_[b.root]) {
      std::swap(a.root, b.root);
      b_from_a = b_from_a.Inverse();
    }
    parent_[b.root] = a.root;
    from_parent_[b.root] = std::move(b_from_a);
    size_[a.root] += size_[b.root];
    return true;
  }

 private:
  std::vector<int32_t> parent_, size_;
  std::vector<Transform> from_parent_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_MEMPLAN_ORDER_UNION_FIND_H_
