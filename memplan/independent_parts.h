// Parts of a problem that no wish joins: what is granted in one takes nothing from the others, so each is searched by
// itself, and n conflicts far from each other cost n searches instead of one over all their combinations. Only the planner's
// files include this.
//
//   batch (a b) = (Wa Wb) (x x)      the two share x, which both read as one variable, and that asks nothing of any order:
//   batch (c d) = (Wc Wd) (x x)      two parts, {a b Wa Wb} and {c d Wc Wd}
#ifndef CELLBATCH_MEMPLAN_INDEPENDENT_PARTS_H_
#define CELLBATCH_MEMPLAN_INDEPENDENT_PARTS_H_

#include <vector>

#include "memplan/layout_problem.h"
#include "memplan/memory_layout.h"
#include "memplan/wishes.h"

namespace cellbatch {

struct PlanPart {
  LayoutProblem problem;  // nameless; the operands that are wished for, in the order of the whole
  std::vector<std::vector<OperandRef>>
      from;  // by batch and operand of `problem`: which of the whole it is
};

// `wishes`: of `problem`. Together they have every wish once. O(problem).
std::vector<PlanPart> IndependentParts(const LayoutProblem& problem, const Wishes& wishes);

}  // namespace cellbatch

#endif  // CELLBATCH_MEMPLAN_INDEPENDENT_PARTS_H_
