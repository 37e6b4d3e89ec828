// A request's cell graph without its data: subgraphs, types, lengths, links, what is returned of it; and back again, to a
// graph that schedules like the one it was. What it brings is one zero, what it returns goes nowhere in particular.
//
// ShapeOf is O(links), on the thread that has the graph. BuildGraph checks all, as a graph from a request is checked.
#ifndef CELLBATCH_SCHEDULER_RECORD_GRAPH_SHAPE_H_
#define CELLBATCH_SCHEDULER_RECORD_GRAPH_SHAPE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/cell_graph.h"
#include "cells/model.h"

namespace cellbatch {

struct SubgraphShape {
  int32_t type = -1;   // -1: a request input,
  int32_t table = -1;  // of this table
  int32_t length = 1;
  int32_t num_links = 0;     // of PieceShape::links, the next ones
  int32_t num_returns = 0;   // of PieceShape::returns, the next ones
  bool keeps_rows = false;   // every node has a row of its own
  int32_t stop_column = -1;  // -1: none
  int32_t stop_value = 0;
  int32_t phase = 0, place = -1;  // as CellGraph::SetPhase and SetPlace said
  friend bool operator==(const SubgraphShape&, const SubgraphShape&) = default;
};

struct LinkShape {
  int32_t from = -1;  // subgraph of the graph; -1: zeros
  int32_t input = 0, first = 0, stride = 0;
  friend bool operator==(const LinkShape&, const LinkShape&) = default;
};

struct ReturnShape {
  int32_t column = 0, first = 0, count = 1;  // nodes
  friend bool operator==(const ReturnShape&, const ReturnShape&) = default;
};

struct PieceShape {
  std::vector<SubgraphShape> subgraphs;
  std::vector<LinkShape> links;
  std::vector<ReturnShape> returns;
  bool grows = false;  // another one may follow
  friend bool operator==(const PieceShape&, const PieceShape&) = default;
};

struct GraphShape {
  std::vector<PieceShape> pieces;
  // Of one whose first piece grows: Growth.
  int32_t most_pieces = 0;
  int64_t most_nodes = 0;
  std::vector<int32_t> most_rows;
  friend bool operator==(const GraphShape&, const GraphShape&) = default;
};

// Of the latest piece, which is sealed.
PieceShape ShapeOfPiece(const CellGraph& graph);
// Of the first piece, with what may follow it.
GraphShape ShapeOf(const CellGraph& graph);

// Adds piece number graph.pieces() of the shape, and seals it. INVALID_ARGUMENT: no graph of this model has that shape.
absl::Status AddPiece(const GraphShape& shape, const Model& model, int max_tasks_in_flight,
                      CellGraph& graph);
// All pieces, one behind the other.
absl::StatusOr<CellGraph> BuildGraph(const GraphShape& shape, const Model& model,
                                     int max_tasks_in_flight);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_RECORD_GRAPH_SHAPE_H_
