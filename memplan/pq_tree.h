// All orders of n things in which given sets stand together: the PQ tree of Booth & Lueker, "Testing for the Consecutive
// Ones Property, Interval Graphs, and Graph Planarity Using PQ-Tree Algorithms" (JCSS 13, 1976).
//
//        P            a P-node's children may stand in any order,
//      / | \          a Q-node's (three or more, drawn in brackets) in this one or the reverse;
//     0  Q  5         the leaves read from left to right are the frontier.
//      / | \          This tree: 3! * 2 = 12 orders of six leaves, in all of which
//     1  P  4         {2,3}, {1,2,3}, {2,3,4} and {1,2,3,4} stand together.
//       / \           As text: (0 [1 (2 3) 4] 5)
//      2   3
//
// Reduce(S) removes the orders in which S does not stand together. It costs O(|S|), amortised over a sequence of calls,
// and leaves the tree as it was when no order remains. Leaves are 0..n-1 and are their own node ids; ids of inner nodes
// are reused when a later Reduce makes nodes. One thread; copyable.
#ifndef CELLBATCH_MEMPLAN_PQ_TREE_H_
#define CELLBATCH_MEMPLAN_PQ_TREE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

namespace cellbatch {

class PqTree {
 public:
  using NodeId = int32_t;
  static constexpr NodeId kNone = -1;
  enum class Kind : uint8_t { kLeaf, kP, kQ, kUnused };

  // Where a set stands: exactly the leaves below `first`, when first == last, and otherwise below the neighbouring children
  // first..last of one Q-node. (A whole Q-node is named as itself.)
  struct Root {
    NodeId first = kNone;
    NodeId last = kNone;

    bool is_node() const { return first == last; }
    friend bool operator==(const Root&, const Root&) = default;
  };

  // One P-node over all leaves: every order. n >= 0.
  explicit PqTree(int num_leaves);

  // Makes `leaves` (each at most once) stand together. False: no order is left that does, and nothing has changed.
  bool Reduce(std::span<const NodeId> leaves);

  // Of the last successful Reduce: the pertinent root, and the inner nodes whose children changed: some are new, some
  // gone. A Q-node that only took in the children of one of its children may be missing, that child is not: if
  // anything changed below a node, something below it or it itself is named. Valid until the next Reduce.
  const Root& pertinent_root() const { return pertinent_root_; }
  std::span<const NodeId> changed() const { return changed_; }

  int num_leaves() const { return num_leaves_; }
  NodeId root() const { return root_; }
  Kind kind(NodeId node) const { return nodes_[node].kind; }
  int num_node_ids() const { return static_cast<int>(nodes_.size()); }

  // From left to right as the tree happens to be stored (a Q-node from one of its ends). O(children).
  std::vector<NodeId> Children(NodeId node) const;
  // The children of a Q-node from root.first to root.last; of a node, itself. O(children).
  std::vector<NodeId> Run(const Root& root) const;
  // One of the orders. O(n).
  std::vector<NodeId> Frontier() const;
  // "(0 [1 (2 3) 4] 5)"
  std::string ToString() const;

 private:
  friend class PqReduction;

  // Children of a P-node form a list with an order that means nothing: link[0] before, link[1] after, end[0] the first.
  // Children of a Q-node know their two neighbours but not which is left, so that a Q-node is reversed for free; the two
  // end children know their parent, those between them do not, so that Q-nodes are merged for free.
  struct Node {
    Kind kind = Kind::kUnused;
    bool in_q = false;      // the parent is a Q-node
    NodeId parent = kNone;  // for a child between others in a Q-node: not to be trusted
    std::array<NodeId, 2> link = {kNone, kNone};
    std::array<NodeId, 2> end = {kNone, kNone};
    int32_t num_children = 0;         // of a P-node; not kept for a Q-node
    uint32_t saved = 0, changed = 0;  // epochs of the Reduce that last did so
    int32_t scratch = -1;             // index of what the Reduce at hand knows of it
  };

  enum class Mark : uint8_t { kUnmarked, kQueued, kBlocked, kUnblocked };
  enum class Label : uint8_t { kEmpty, kPartial, kFull };

  // What one Reduce knows of a node it met. A line each: a deque finds its i-th by shifts, where it would divide.
  struct alignas(64) Scratch {
    NodeId node = kNone;
    Mark mark = Mark::kUnmarked;
    Label label = Label::kEmpty;
    int32_t pertinent_children = 0;  // still to be processed
    int32_t pertinent_leaves = 0;
    std::vector<NodeId> full;  // its full children
    std::array<NodeId, 2> partial = {kNone, kNone};
    int32_t num_partial = 0;
    NodeId inner_full = kNone;  // of a partial node: its full child beside an empty one
  };

  struct Saved {
    NodeId id;
    Node node;
  };

  int num_leaves_;
  NodeId root_ = kNone;
  std::vector<Node> nodes_;
  std::vector<NodeId> free_;
  uint32_t epoch_ = 0;
  Root pertinent_root_;
  std::vector<NodeId> changed_;
  // Kept between calls for their memory only.
  std::deque<Scratch> scratch_;
  std::vector<Saved> saved_;
  std::vector<NodeId> created_, removed_, queue_;
  int32_t num_scratch_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_MEMPLAN_PQ_TREE_H_
