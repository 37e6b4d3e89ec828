// Judges a finished schedule by the graph alone; knows nothing of who made it, or how.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_SCHEDULE_CHECK_H_
#define CELLBATCH_SCHEDULER_OFFLINE_SCHEDULE_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/offline/typed_graph.h"

namespace cellbatch {

// The nodes of each batch, in order.
using Schedule = std::vector<std::vector<int32_t>>;

// Empty: every node is in exactly one batch, a batch has nodes of one type, and each node's predecessors are in earlier
// ones. Else what is wrong first. O(nodes + arrows).
std::string FaultOf(const TypedGraph& graph, const Schedule& schedule);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_SCHEDULE_CHECK_H_
