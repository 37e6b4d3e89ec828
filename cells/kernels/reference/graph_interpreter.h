// A whole request by the interpreter: node after node in the order the graph was written, in
// double. What every test of scheduling, devices and serving compares its answers with.
//
//   answers = InterpretGraph(model, graph)   one vector of doubles per tensor of graph.tensors(),
//   in
//                                            element order (int32 values are exact)
//
// Pure, any thread; allocates. A chain that stops leaves its later nodes as zeros.
#ifndef CELLBATCH_CELLS_KERNELS_REFERENCE_GRAPH_INTERPRETER_H_
#define CELLBATCH_CELLS_KERNELS_REFERENCE_GRAPH_INTERPRETER_H_

#include <vector>

#include "cells/cell_graph.h"
#include "cells/kernels/reference/interpreter.h"
#include "cells/model.h"

namespace cellbatch {

// REQUIRES: `model` is valid and `graph` was sealed for it.
std::vector<std::vector<double>> InterpretGraph(const Model& model, const CellGraph& graph);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_KERNELS_REFERENCE_GRAPH_INTERPRETER_H_
