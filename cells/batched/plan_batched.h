// From a definition to a batched program: operators one by one, the fewest batches of them, and one of four layouts.
//
//   kNaive        declaration order; what does not lie in place is copied in every task, weights too (the paper's baseline)
//   kNaivePacked  the same, but weights are stored a second time at load: what somebody without a planner would do
//   kPlanned      memplan's, in the paper's setting: inputs where they arrive, broadcasts written out
//   kFull         memplan's, with places for inputs, too, and repeated sources read again
//
// Load time (a plan is a millisecond). Any thread.
#ifndef CELLBATCH_CELLS_BATCHED_PLAN_BATCHED_H_
#define CELLBATCH_CELLS_BATCHED_PLAN_BATCHED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/batched/batched_program.h"
#include "cells/cell_definition.h"
#include "memplan/cost_report.h"

namespace cellbatch {

enum class BatchedLayout : uint8_t { kNaive, kNaivePacked, kPlanned, kFull };

struct BatchedPlan {
  BatchedProgram program;
  CostReport cost;  // of a task of the nodes that it was planned for
};

// The program serves any number of nodes; which layout is cheapest hardly depends on it, what the report counts does.
// `placed`: inputs ("before.c") that have a place in the plan whatever the layout. Fails as OperatorsOfCell does.
absl::StatusOr<BatchedPlan> PlanBatched(const CellDefinition& cell, BatchedLayout layout,
                                        int32_t nodes, const std::vector<std::string>& placed = {});

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_BATCHED_PLAN_BATCHED_H_
