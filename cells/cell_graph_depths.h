// How deep a request's nodes lie, as policies that look at depth are told (agenda, depth): a number for each subgraph,
// of its first node. Where a model says nothing (Model::unfold), the longest path from a source, in nodes.
//
// *Phases* (ACRoBat's program phases). Depths begin anew in each stage of the request's program, and what is told is
// (phase, depth) as one number, phase * stride + depth. So what hangs on every node lies at one depth wherever those
// nodes lie, and a decoder begins at the same depth behind a short sentence and a long one.
//
//   chain L   [0] - [1] - [2] - [3]            told as they are   0 1 2 3, heads 1 2 3 4: with depth, a batch each
//              |     |     |     |             with two phases    0 1 2 3, heads 2048 2048 2048 2048
//   heads H   [ ]   [ ]   [ ]   [ ]
//
// *Ghost nodes* (ACRoBat's ghost operators: no-ops that pad the shorter arm of a branch). Nothing is added to a graph:
// a ghost is a depth told greater than the path, and costs nothing.
// - Of two arms that part and meet again in one phase, the shorter one is told as deep as if ghosts stood where it
//   begins: it ends where the longer one does. What begins nothing but itself (it reads nothing computed in its phase)
//   stays where it is, hoisted, and so does what nobody in its phase reads.
//
//             +-- b - c - d --+
//         a --+               +-- f            e: 3 with ghosts, 1 without
//             +------ e ------+
//
// - Where a request takes an arm that another does not, only its unfolder knows; it may say where a subgraph stands in
//   the program (CellGraph::SetPlace), and that is told: a lattice's character at position p is at p, with or without
//   a sum before it.
//
// Whatever is told, a policy only chooses among what is ready: answers are the same bits. O(subgraphs + links), on the
// caller's thread, of the latest piece; what it reads of earlier pieces is taken at its plain depth.
#ifndef CELLBATCH_CELLS_CELL_GRAPH_DEPTHS_H_
#define CELLBATCH_CELLS_CELL_GRAPH_DEPTHS_H_

#include <cstdint>
#include <vector>

#include "cells/cell_graph.h"
#include "cells/model.h"

namespace cellbatch {

// Where there are several phases, all that is told lies below this; of one, nothing bounds it.
inline constexpr int32_t kToldDepths = 4096;

// How many depths a phase has, where there are so many phases; what lies deeper is told as the last of them. A power of
// two, 4096 of two phases being 2048 each.
int32_t PhaseStride(int32_t phases);
// `depth` in its phase, as one number.
int32_t ToldDepth(int32_t phase, int32_t depth, int32_t phases);

// By place in graph.piece(); 0: a request input. REQUIRES: sealed.
std::vector<int32_t> ToldDepths(const CellGraph& graph, const Model& model);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_CELL_GRAPH_DEPTHS_H_
