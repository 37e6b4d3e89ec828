// Graphs for models whose requests draw their own (cells/unfold/dag_unfolder.h), from what the server says
// of their node types: random, and such that nearly every node is read.

#ifndef CELLBATCH_LOADGEN_RANDOM_GRAPH_H_
#define CELLBATCH_LOADGEN_RANDOM_GRAPH_H_

#include <random>
#include <vector>

#include "client/tensor.h"
#include "loadgen/needs.h"

namespace cellbatch {

// About `nodes` nodes, and at the end one of the output type with whatever it reads. An input reads nodes that
// nobody has read yet where there are such, so graphs look like trees that sometimes share a branch; one that sums
// reads one to three. Half of the nodes, about, read none. Rows are uniform in [-1, 1), ids below their bound.
// O(nodes · inputs). The same `random`, the same graph.
std::vector<Tensor> RandomGraph(const ModelNeeds& needs, int32_t nodes, std::mt19937_64& random);

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_RANDOM_GRAPH_H_
