// A request's cells as the server unfolds them, node by node: a chain of n becomes n nodes one behind the other, a set
// n nodes side by side. What reads a node waits for that node alone, not for its subgraph.
//
// Where the model says so (Model::unfold), depths are told as cells/cell_graph_depths.h means it, but node by node: of a
// served request, which goes by subgraphs, it is the same where each node is one.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_UNFOLDED_GRAPH_H_
#define CELLBATCH_SCHEDULER_OFFLINE_UNFOLDED_GRAPH_H_

#include "cells/cell_graph.h"
#include "cells/model.h"
#include "scheduler/offline/typed_graph.h"

namespace cellbatch {

// Beside the nodes that are there; types are the model's, by id. REQUIRES: sealed; all pieces there are, so of a graph
// that grows what is known of it. A chain with a stop is taken at its cap. O(nodes + links).
void AppendUnfolded(const CellGraph& request, const Model& model, TypedGraph& graph);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_UNFOLDED_GRAPH_H_
