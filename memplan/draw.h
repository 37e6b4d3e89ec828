// Pictures of a plan, for people: what lies where, and which operand reads what.
//
//   memory          a  b |c  d        variables, first to last; a bar where a fixed run begins
//   add    result   .  .  1  2        operator 1 of batch add writes c, operator 2 writes d
//          source 1 1  2  .  .        and they read a and b: in place, because 1 2 stand side by side
//          source 2 2  1  .  .        gathered, 16 bytes
#ifndef CELLBATCH_MEMPLAN_DRAW_H_
#define CELLBATCH_MEMPLAN_DRAW_H_

#include <string>

#include "memplan/layout_problem.h"
#include "memplan/memory_layout.h"
#include "memplan/planner.h"
#include "memplan/pq_tree.h"

namespace cellbatch {

// The picture above; batches of one operator are left out, and so are variables that no other batch names.
std::string DrawText(const LayoutProblem& problem, const MemoryLayout& layout);

// The same as an SVG image, a colour per batch, under the PQ tree of the plan (P-nodes round, Q-nodes long) when there is one.
std::string DrawSvg(const LayoutProblem& problem, const MemoryLayout& layout,
                    const PlanTrace* trace = nullptr);

// The variables' part of a planner's tree, "(x [a b c] (p q))": ( ) in any order, [ ] in this one or the reverse.
std::string DrawTree(const LayoutProblem& problem, const PqTree& tree);

}  // namespace cellbatch

#endif  // CELLBATCH_MEMPLAN_DRAW_H_
