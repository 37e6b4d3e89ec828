// The fewest batches of a small graph, by search: what every rule of thumb is measured against.
//
// Iterative deepening on the number of batches; a state is the set of nodes that are done, cut off where the batches so
// far and the lower bound of the rest exceed what is tried, or where it was reached with no more batches before. Taking
// all ready nodes of a type at once loses nothing. Exponential: seconds at some 20 nodes of 3 to 5 types.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_EXACT_H_
#define CELLBATCH_SCHEDULER_OFFLINE_EXACT_H_

#include <cstdint>

#include "scheduler/offline/typed_graph.h"

namespace cellbatch {

// REQUIRES: at most 32 nodes.
int32_t FewestBatches(const TypedGraph& graph);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_EXACT_H_
