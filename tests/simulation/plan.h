// One simulated request before it is a CellGraph, and what must come of it: the oracle. Evaluate
// walks the plan in the slow and obvious way and knows nothing of rows, rings, tasks or devices.
#ifndef CELLBATCH_TESTS_SIMULATION_PLAN_H_
#define CELLBATCH_TESTS_SIMULATION_PLAN_H_

#include <cstdint>
#include <vector>

#include "cells/cell_graph.h"
#include "cells/device/sim/fingerprint.h"
#include "cells/device/sim/sim_memory.h"
#include "cells/model.h"

namespace cellbatch::sim {

struct PlannedSubgraph {
  bool is_input = false;
  TableId table;      // inputs only: tokens, or states to begin from
  ColumnSet brought;  // likewise: its columns that the request brings
  CellTypeId type;    // cells only
  int32_t length = 1;
  std::vector<Link> links;  // as given to CellGraph::Add
  Stop stop;
};

struct PlannedReturn {  // one tensor each
  SubgraphId from;
  ColumnId column;
  NodeRange nodes;
};

struct Plan {
  std::vector<PlannedSubgraph> subgraphs;
  std::vector<PlannedReturn> returns;
  // The graph grows: the first subgraph of each later piece, ascending. Empty: it comes at once.
  std::vector<int32_t> cuts;
  bool closes = false;  // the last piece says that it is the last

  int num_pieces() const { return static_cast<int>(cuts.size()) + 1; }
  int32_t piece_begin(int piece) const {
    return piece == 0 ? 0 : cuts[static_cast<size_t>(piece) - 1];
  }
  int32_t piece_end(int piece) const {
    return piece + 1 == num_pieces() ? static_cast<int32_t>(subgraphs.size())
                                     : cuts[static_cast<size_t>(piece)];
  }

  SubgraphId AddTokens(int32_t rows);
  SubgraphId AddStates(TableId table, int32_t rows, ColumnSet brought);
  SubgraphId Add(CellTypeId type, int32_t length, std::vector<Link> links, Stop stop = {});
  void Return(SubgraphId from, ColumnId column, NodeRange nodes) {
    returns.push_back({from, column, nodes});
  }
  int32_t length(SubgraphId s) const { return subgraphs[static_cast<size_t>(s.value())].length; }
};

// What each node leaves. Node t of subgraph s is number first_node[s] + t; rows of inputs are numbered too.
struct Evaluation {
  std::vector<int32_t> first_node;             // by subgraph, and the total behind the last
  std::vector<Fingerprint> left;               // by node number; past a stop: if it ran anyway
  std::vector<int32_t> executed;               // by subgraph: nodes that belong to the answer
  std::vector<std::vector<std::byte>> answer;  // by tensor
  int64_t num_nodes() const { return static_cast<int64_t>(left.size()); }
};

// What the request brings, as CellGraph::AddInput takes it, in order of the plan's inputs: every row of every column has `tag`
// and a number of its own.
std::vector<int32_t> MakeInputs(const Plan& plan, const Model& model, int32_t tag);

Evaluation Evaluate(const Plan& plan, const Model& model, const std::vector<int32_t>& inputs,
                    WordRule word_rule);

// Whether two nodes leave the same. Then no observer could tell them apart: such plans are not used.
bool HasTwins(const Evaluation& evaluation);

// Adds that piece to a graph that has the earlier ones, and does not seal it.
void BuildPiece(const Plan& plan, const Model& model, const std::vector<int32_t>& inputs, int piece,
                CellGraph& graph);
// The request itself, or its first piece, not yet sealed. `inputs` outlive the request.
CellGraph Build(const Plan& plan, const Model& model, const std::vector<int32_t>& inputs);

}  // namespace cellbatch::sim

#endif  // CELLBATCH_TESTS_SIMULATION_PLAN_H_
