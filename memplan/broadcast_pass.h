// First pass of ED-Batch's planner (algorithm 4, BroadcastConstraint): operands that must have one order get subtrees of one
// shape. What stands together in one must stand together in the other:
//
//   pair   a b c d            (a b) (c d)  says {a,b} {c,d}; carried over: {p,q} {r,s}; so
//          p q r s            (p q r s)    becomes ((p q) (r s)), and every pair that holds one of its nodes is looked at again.
#ifndef CELLBATCH_MEMPLAN_BROADCAST_PASS_H_
#define CELLBATCH_MEMPLAN_BROADCAST_PASS_H_

#include <span>
#include <vector>

#include "memplan/pq_tree.h"

namespace cellbatch {

// left[i] must have the place among `left` that right[i] has among `right`. No leaf twice on one side.
struct AlignedPair {
  std::vector<PqTree::NodeId> left, right;
};

// Reduces the tree until, in every pair, both sides stand together in the same ways: a fixed point, breadth first over
// the pairs whose subtrees changed. False: no such tree, which is then somewhere on the way. One round costs the sum
// over the nodes below a pair of their leaves; each round but a pair's last adds a node or makes a P-node a Q-node.
bool BroadcastConstraints(std::span<const AlignedPair> pairs, PqTree& tree);

}  // namespace cellbatch

#endif  // CELLBATCH_MEMPLAN_BROADCAST_PASS_H_
