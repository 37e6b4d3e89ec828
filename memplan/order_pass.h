// Second pass of ED-Batch's planner (algorithms 5 to 7, DecideNodesOrder and GetLeafOrder): subtrees that the first
// pass made alike get alike orders.
//
//   pair  a b c      Q1 = [a b c]      read in positions 0 1 2 and 2 1 0: Q2's order is Q1's reversed.
//         p q r      Q2 = [r q p]      P-nodes: the bijection of children that keeps positions.
//
// A union-find with reversals and permutations holds what is known; what nobody decides starts with the smallest leaf.
#ifndef CELLBATCH_MEMPLAN_ORDER_PASS_H_
#define CELLBATCH_MEMPLAN_ORDER_PASS_H_

#include <optional>
#include <span>
#include <vector>

#include "memplan/broadcast_pass.h"
#include "memplan/pq_tree.h"

namespace cellbatch {

// An order of all leaves in which each pair's sides have the same order, and each of `fixed` stands from left to right as
// it is given. None: the relations contradict each other. After BroadcastConstraints of the same pairs, with every fixed run
// reduced neighbour by neighbour, that means that there is no such order. The tree is not changed. O(tree + pairs * a(n)).
std::optional<std::vector<PqTree::NodeId>> DecideOrder(
    std::span<const AlignedPair> pairs, std::span<const std::vector<PqTree::NodeId>> fixed,
    PqTree& tree);

}  // namespace cellbatch

#endif  // CELLBATCH_MEMPLAN_ORDER_PASS_H_
