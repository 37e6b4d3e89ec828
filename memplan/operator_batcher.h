// Which operators of a small graph run as one batch (ED-Batch, section 3 and its "grid search"; algorithms.md, section 5).
//
// An operator graph is a LayoutProblem whose batches have one operator each: the batch's name is what the operator does.
//
//   op matmul f1 = Wf x        Operators of one signature (name, sizes of result and sources; the weights may differ)
//   op matmul i1 = Wi x        that do not wait for each other may run together: one batch matmul (f1 i1) = (Wf Wi) (x x).
//   op sigmoid f = f1          What writes an output runs alone: its buffer may be the caller's own.
//   op sigmoid i = i1
//
// A step takes every ready operator of one signature. Branch and bound over the signatures finds the fewest steps; of the
// different ways to batch that take that many, the one whose plan copies least is chosen.
#ifndef CELLBATCH_MEMPLAN_OPERATOR_BATCHER_H_
#define CELLBATCH_MEMPLAN_OPERATOR_BATCHER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "memplan/layout_problem.h"
#include "memplan/memory_layout.h"
#include "memplan/planner.h"

namespace cellbatch {

struct BatchOptions {
  int64_t max_states = 20'000;  // visited by the search
  int max_plans = 16;           // ways to batch that are planned and compared
  PlanOptions plan;
};

struct Batched {
  LayoutProblem problem;  // the graph's, with batches in the order they run
  MemoryLayout layout;    // the best plan found for it
  bool fewest = false;    // proved: no sequence of such steps is shorter
  int plans = 0;          // compared
};

inline constexpr int kMaxOperators = 4096;

// Errors name the operator: a batch of several, a cycle, too many operators, and what CheckProblem finds. Deterministic.
absl::StatusOr<Batched> BatchOperators(const LayoutProblem& graph,
                                       const BatchOptions& options = {});

}  // namespace cellbatch

#endif  // CELLBATCH_MEMPLAN_OPERATOR_BATCHER_H_
