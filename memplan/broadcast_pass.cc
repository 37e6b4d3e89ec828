#include "memplan/broadcast_pass.h"

#include <cstdint>
#include <utility>

namespace cellbatch {
namespace {

using NodeId = PqTree::NodeId;

// The positions of an operand in the order of their leaves, and which of them stand together: each set is a run of them,
// since a node's leaves, and those of neighbours, follow each other.
struct Parsed {
  struct Run {
    size_t begin, end;
  };
  std::vector<int32_t> positions;
  std::vector<Run> sets;

  void Clear() {
    positions.clear();
    sets.clear();
  }
};

class BroadcastPass {
 public:
  BroadcastPass(std::span<const AlignedPair> pairs, PqTree& tree)
      : pairs_(pairs), tree_(tree), queued_(pairs.size(), true), position_(tree.num_leaves()) {
    for (size_t p = 0; p < pairs.size(); ++p) queue_.push_back(static_cast<int32_t>(p));
  }

  bool Run() {
    for (size_t head = 0; head < queue_.size(); ++head) {
      const int32_t pair = queue_[head];
      queued_[pair] = false;
      // Parsed before anything is carried over, so that the pair is registered and looks at itself again when it changes.
      if (!Parse(pair, pairs_[pair].left, left_) || !Parse(pair, pairs_[pair].right, right_) ||
          !Apply(left_, pairs_[pair].right) || !Apply(right_, pairs_[pair].left)) {
        return false;
      }
    }
    return true;
  }

 private:
  // ParseConstraint: the sets of positions that stand together below the operand's root.
  bool Parse(int32_t pair, const std::vector<NodeId>& operand, Parsed& parsed) {
    if (!Reduce(operand)) return false;
    for (size_t i = 0; i < operand.size(); ++i) position_[operand[i]] = static_cast<int32_t>(i);
    parsed.Clear();
    const PqTree::Root root = tree_.pertinent_root();
    if (root.is_node()) {
      Collect(pair, root.first, true, parsed);
    } else {
      CollectNeighbours(pair, tree_.Run(root), true, parsed);
    }
    return true;
  }

  // GetSubtreeCons: every node's leaves, and of a Q-node those of every two neighbours.
  void Collect(int32_t pair, NodeId node, bool is_root, Parsed& parsed) {
    if (tree_.kind(node) == PqTree::Kind::kLeaf) {
      parsed.positions.push_back(position_[node]);
      return;
    }
    Register(pair, node);
    const bool ordered = tree_.kind(node) == PqTree::Kind::kQ;
    const size_t begin = parsed.positions.size();
    CollectNeighbours(pair, tree_.Children(node), ordered, parsed);
    if (!is_root) parsed.sets.push_back({begin, parsed.positions.size()});
  }

  void CollectNeighbours(int32_t pair, const std::vector<NodeId>& children, bool ordered,
                         Parsed& parsed) {
    size_t before = 0;  // where the child before begins
    for (size_t i = 0; i < children.size(); ++i) {
      const size_t begin = parsed.positions.size();
      Collect(pair, children[i], false, parsed);
      if (ordered && i > 0) parsed.sets.push_back({before, parsed.positions.size()});
      before = begin;
    }
  }

  // ApplyConstraints: the other side must stand together likewise.
  bool Apply(const Parsed& parsed, const std::vector<NodeId>& operand) {
    for (const Parsed::Run& set : parsed.sets) {
      leaves_.clear();
      for (size_t i = set.begin; i < set.end; ++i) leaves_.push_back(operand[parsed.positions[i]]);
      if (!Reduce(leaves_)) return false;
    }
    return true;
  }

  // ReduceAndGetChanged: pairs with a node that changed wait for another look.
  bool Reduce(const std::vector<NodeId>& leaves) {
    if (!tree_.Reduce(leaves)) return false;
    for (NodeId node : tree_.changed()) {
      if (node >= static_cast<NodeId>(pairs_of_.size())) continue;
      for (int32_t pair : pairs_of_[node]) {
        if (queued_[pair]) continue;
        queued_[pair] = true;
        queue_.push_back(pair);
      }
      pairs_of_[node].clear();
    }
    return true;
  }

  void Register(int32_t pair, NodeId node) {
    if (node >= static_cast<NodeId>(pairs_of_.size())) pairs_of_.resize(tree_.num_node_ids());
    if (pairs_of_[node].empty() || pairs_of_[node].back() != pair) pairs_of_[node].push_back(pair);
  }

  std::span<const AlignedPair> pairs_;
  PqTree& tree_;
  std::vector<int32_t>
      queue_;  // never popped from the front: what is behind `head` has been looked at
  std::vector<bool> queued_;
  std::vector<int32_t> position_;  // per leaf, in the operand at hand
  std::vector<std::vector<int32_t>>
      pairs_of_;         // per node, the pairs that have it below an operand's root
  Parsed left_, right_;  // of the pair at hand
  std::vector<NodeId> leaves_;
};

}  // namespace

bool BroadcastConstraints(std::span<const AlignedPair> pairs, PqTree& tree) {
  return BroadcastPass(pairs, tree).Run();
}

}  // namespace cellbatch
