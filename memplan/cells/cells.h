// Cells of ED-Batch's Table 2 as operator graphs, in the text of memplan/problem_text.h and in the paper's setting: inputs
// fixed, broadcasts copied. Those of the seven whose shipped definitions compute with other operators than the paper's; the
// other three are derived from their definitions (cells/compile/operator_problem.h). The files beside this one are in the
// program.
#ifndef CELLBATCH_MEMPLAN_CELLS_CELLS_H_
#define CELLBATCH_MEMPLAN_CELLS_CELLS_H_

#include <span>
#include <string_view>

#include "memplan/layout_problem.h"

namespace cellbatch {

struct PlannedCell {
  std::string_view name, text;
};

// By name. They live as long as the program.
std::span<const PlannedCell> PlannedCells();

// The other setting: every input has a place in the plan (somebody copies it there), broadcasts are read by stride.
inline LayoutProblem InFull(LayoutProblem problem) {
  problem.fixed.clear();
  problem.broadcasts = Broadcasts::kByStride;
  return problem;
}

}  // namespace cellbatch

#endif  // CELLBATCH_MEMPLAN_CELLS_CELLS_H_
