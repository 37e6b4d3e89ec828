// What a layout costs at every execution of the cell: copies, their bytes, launches. Pure arithmetic on a layout that
// the validator accepts.
#ifndef CELLBATCH_MEMPLAN_COST_REPORT_H_
#define CELLBATCH_MEMPLAN_COST_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "memplan/layout_problem.h"
#include "memplan/memory_layout.h"

namespace cellbatch {

struct CostReport {
  int num_batches = 0;
  int launches =
      0;  // of the batches' own kernels: more than num_batches where a broadcast cuts a batch
  int gathers = 0;   // memory kernels before a batch, one per operand
  int scatters = 0;  // and behind one
  int64_t gather_bytes = 0, scatter_bytes = 0;
  int input_gathers = 0;  // inputs that have a place in the plan: somebody copies each there
  int64_t input_bytes = 0;
  int64_t plan_bytes = 0;    // of the variables that have a place in the plan
  int64_t packed_bytes = 0;  // of constants stored a second time, at load

  int kernels() const { return gathers + scatters; }
  int64_t bytes() const { return gather_bytes + scatter_bytes; }
};

CostReport Cost(const LayoutProblem& problem, const MemoryLayout& layout);

// How many launches each batch takes: one, and one more for every place where a source read with stride zero starts anew.
//
//   (x x x x h h h h)      with x, h in one piece: one launch of two strides; else two products with stacked weights
//   (x x x h h)            two
//   (x h x h)              one: x, h are in one piece
//   (x x x x)              one
std::vector<int> LaunchesOfBatches(const LayoutProblem& problem, const MemoryLayout& layout);

// A few lines for people: totals, then every copy with its reason.
std::string Describe(const LayoutProblem& problem, const MemoryLayout& layout);

}  // namespace cellbatch

#endif  // CELLBATCH_MEMPLAN_COST_REPORT_H_
