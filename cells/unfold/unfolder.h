// Turns a request into a graph of cells. Pure: no state changes, no clock, no I/O; called on the
// gRPC thread that received the request, by several threads at once.
//
// Fails with INVALID_ARGUMENT naming the tensor and both values; then the graph is thrown away.
// An unfolder reserves first (CellGraph::Reserve), so that a request is one block of memory.
//
// Where the shape of the graph depends on what is computed (transition parsers), Unfold gives its first
// piece and says how far it may grow (CellGraph::Grow); whenever all of it is done, Extend adds the next:
//
//   Unfold -> [ SHIFT SHIFT classify ] -- done: SCORES may be read --> Extend -> [ reduce classify ] -- done --> ..
//
// What a request's unfolding remembers in between is its Progress, which the graph owns.
#ifndef CELLBATCH_CELLS_UNFOLD_UNFOLDER_H_
#define CELLBATCH_CELLS_UNFOLD_UNFOLDER_H_

#include "absl/status/status.h"
#include "cells/cell_graph.h"
#include "cells/unfold/request_description.h"
#include "cells/unfold/request_input.h"

namespace cellbatch {

class Unfolder {
 public:
  virtual ~Unfolder() = default;
  // Fills `graph` (fresh) with inputs, subgraphs, links and returns. Does not Seal it.
  // Error texts start with what is wrong ("input TOKENS: ..."); the caller adds the model's name.
  virtual absl::Status Unfold(const RequestInput& input, CellGraph& graph) const = 0;

  // Of a graph that grows, all that was added is done: the returned tensors hold what it left. Adds the
  // next piece, whose links may read what is done (of a chain the last node, or all if KeepRows was
  // said), or nothing: then the request is answered. May write into tensors itself. On a responder's
  // thread, one call at a time for a request; other answers of that thread wait for it, so it is short.
  // An error ends the request with it. Does not Seal.
  virtual absl::Status Extend(const RequestInput& input, CellGraph& graph) const {
    (void)input, (void)graph;
    return absl::InternalError("the graph may grow, and its unfolder does not say how (Extend)");
  }

  // How many stages its requests' programs have (CellGraph::SetPhase): 1 to kMostPhases.
  virtual int32_t phases() const { return 1; }

  // For those who make requests.
  virtual RequestDescription Describe() const { return {}; }
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_UNFOLDER_H_
