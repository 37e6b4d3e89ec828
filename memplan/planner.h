// Plan: from operand batches to an order in memory with the fewest bytes copied (ED-Batch, algorithm 2, taken further).
//
//   for each batch, its operators' order is a tuple of leaves too: "every operand that is not copied stands together
//   in memory, in the order in which the operators run" is then one kind of constraint, results and sources alike.
//
//   adjacency      Reduce by every operand                                        pq_tree
//   broadcasting   pairs (operators, operand) get subtrees of one shape           broadcast_pass
//   order          ... and of one order                                           order_pass
//
// These three find a layout for a set of operands exactly when there is one. When all together have none, operands are given
// up: those that cost the fewest bytes, by branch and bound over sets of operands, as far as `max_checks` tries go
// (greedily from the most expensive operand down, where there are too many). Operands that no layout can satisfy
// (broadcasts that are to be copied, variables from several places) never take part; constants that do not fit are packed.
// Parts of a problem that nothing joins are searched one by one, those that are alike once (independent_parts.h).
#ifndef CELLBATCH_MEMPLAN_PLANNER_H_
#define CELLBATCH_MEMPLAN_PLANNER_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "memplan/layout_problem.h"
#include "memplan/memory_layout.h"
#include "memplan/pq_tree.h"

namespace cellbatch {

struct PlanOptions {
  int max_checks =
      2000;  // sets of operands tried beyond the greedy ones, in each part of the problem; MemoryLayout::least
      // says whether it was enough
  // Leaves that all tries may look at together (MemoryLayout::work); the greedy ones, too. The whole and each part are tried
  // once as if all could have their way, whatever that takes; who was not tried when the work is spent is given up.
  int64_t max_work = std::numeric_limits<int64_t>::max();
};

// For those who draw: the tree of the final set of operands after each pass. Leaves below `num_variables` are variables,
// the others stand for the operators of batches.
struct PlanTrace {
  int num_variables = 0;
  std::optional<PqTree> adjacent, alike;
  std::vector<PqTree::NodeId> leaves;  // in the order decided
};

// Fails as CheckProblem does, never otherwise. Deterministic. Never copies more than the naive layout.
// A problem without conflicts costs little more than the sum of its operands' lengths.
absl::StatusOr<MemoryLayout> Plan(const LayoutProblem& problem, const PlanOptions& options = {},
                                  PlanTrace* trace = nullptr);

}  // namespace cellbatch

#endif  // CELLBATCH_MEMPLAN_PLANNER_H_
