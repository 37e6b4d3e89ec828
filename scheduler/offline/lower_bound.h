// How few batches a graph can take at best (ED-Batch, appendix A.3): for each type the most of its nodes on one path,
// added up. Met by chains, trees and taggers; lattices stay a fifth above it.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_LOWER_BOUND_H_
#define CELLBATCH_SCHEDULER_OFFLINE_LOWER_BOUND_H_

#include <cstdint>

#include "scheduler/offline/typed_graph.h"

namespace cellbatch {

// O(types x (nodes + arrows)), one pass a type: as it is written down, so that it checks what replays keep up instead.
int32_t LowerBound(const TypedGraph& graph);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_LOWER_BOUND_H_
