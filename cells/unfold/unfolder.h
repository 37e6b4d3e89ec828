// Turns a request into a graph of cells. Pure: no state changes, no clock, no I/O; called on the
// gRPC thread that received the request, by several threads at once.
//
// Fails with INVALID_ARGUMENT naming the tensor and both values; then the graph is thrown away.
// An unfolder reserves first (CellGraph::Reserve), so that a request is one block of memory.
#ifndef CELLBATCH_CELLS_UNFOLD_UNFOLDER_H_
#define CELLBATCH_CELLS_UNFOLD_UNFOLDER_H_

#include "absl/status/status.h"
#include "cells/cell_graph.h"
#include "cells/unfold/request_input.h"

namespace cellbatch {

class Unfolder {
 public:
  virtual ~Unfolder() = default;
  // Fills `graph` (fresh) with inputs, subgraphs, links and returns. Does not Seal it.
  // Error texts start with what is wrong ("input TOKENS: ..."); the caller adds the model's name.
  virtual absl::Status Unfold(const RequestInput& input, CellGraph& graph) const = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_UNFOLDER_H_
