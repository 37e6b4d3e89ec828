// How many nodes of a subgraph's own type one path can hold that begins with its first node: what is left to do in
// sequence of that type, nodes of other types between them not counted.
//
//   leaf - chain of 3 - head - chain of 2      the first chain: 5; the second: 2; leaf and head: 1
//
// Of the latest piece; what follows in later pieces is not known. O((subgraphs + links) x types) time, O(subgraphs x
// types) memory, on the caller's thread.
#ifndef CELLBATCH_CELLS_CELL_GRAPH_HEIGHTS_H_
#define CELLBATCH_CELLS_CELL_GRAPH_HEIGHTS_H_

#include <cstdint>
#include <vector>

#include "cells/cell_graph.h"
#include "cells/model.h"

namespace cellbatch {

// By place in graph.piece(); 0: a request input. REQUIRES: sealed.
std::vector<int32_t> SameTypeHeights(const CellGraph& graph, const Model& model);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_CELL_GRAPH_HEIGHTS_H_
