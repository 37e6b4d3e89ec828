// Judges a layout, whoever made it, by addresses alone. Knows nothing of PQ trees, of the planner, or of how a layout's claims
// were come by: the only thing it shares with them is the problem.
#ifndef CELLBATCH_MEMPLAN_VALIDATOR_H_
#define CELLBATCH_MEMPLAN_VALIDATOR_H_

#include "absl/status/status.h"
#include "memplan/layout_problem.h"
#include "memplan/memory_layout.h"

namespace cellbatch {

// OK when all of this holds, else what does not, with names:
//   - every variable that is not fixed has one place, places do not overlap, and `order`, `offset` and `bytes` agree;
//   - every batch runs each of its operators once;
//   - an operand that is neither copied nor packed can be read (or written) as it lies, for any number of instances;
//   - only operands of constants are packed, copies say their true sizes, and nothing is copied or packed needlessly.
absl::Status Validate(const LayoutProblem& problem, const MemoryLayout& layout);

}  // namespace cellbatch

#endif  // CELLBATCH_MEMPLAN_VALIDATOR_H_
