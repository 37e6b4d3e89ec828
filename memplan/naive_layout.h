// The layout nobody planned, and the baseline of every figure: variables in declaration order, each batch's operators in
// the order of their results, every operand that does not happen to lie in place copied, weights too.
#ifndef CELLBATCH_MEMPLAN_NAIVE_LAYOUT_H_
#define CELLBATCH_MEMPLAN_NAIVE_LAYOUT_H_

#include "absl/status/statusor.h"
#include "memplan/layout_problem.h"
#include "memplan/memory_layout.h"

namespace cellbatch {

// Fails as CheckProblem does. O(problem).
absl::StatusOr<MemoryLayout> NaiveLayout(const LayoutProblem& problem);

// The same places with operands of constants packed at load: what a planner must never be worse than. The problem has
// been checked.
MemoryLayout NaivePackedLayout(const LayoutProblem& problem);

}  // namespace cellbatch

#endif  // CELLBATCH_MEMPLAN_NAIVE_LAYOUT_H_
