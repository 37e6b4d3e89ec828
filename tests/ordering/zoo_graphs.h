// The requests of the zoo's workloads as typed graphs, unfolded by the server's own unfolders: what the benchmark
// `batches` and the tests of learning order.
#ifndef CELLBATCH_TESTS_ORDERING_ZOO_GRAPHS_H_
#define CELLBATCH_TESTS_ORDERING_ZOO_GRAPHS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cells/ids.h"
#include "scheduler/offline/typed_graph.h"

namespace cellbatch::ordering {

struct ZooGraphs {
  std::string source;                // of the data
  std::vector<std::string> types;    // names, by id
  std::vector<int32_t> priorities;   // by type
  int32_t phases = 1;                // that depths are told in
  std::vector<TypedGraph> requests;  // in the file's order, of what the papers' programs compute
  // Requests first .. first + count - 1 side by side.
  TypedGraph Batch(size_t first, size_t count) const;
  // Of its nodes, the rows that they leave, where requests lie one behind the other in each table: equal numbers are the
  // same row, neighbours in a table are neighbours.
  std::vector<int64_t> BatchRows(size_t first, size_t count) const;

  struct Rows {
    std::vector<TableId> tables;    // by node
    std::vector<int32_t> rows;      // by node, relative to the request's first
    std::vector<int32_t> of_table;  // by table: how many the request has
  };
  std::vector<Rows> rows;  // by request
};

// A name of zoo::WorkloadNames(), at most so many of its requests. `unfold`: what the model's configuration says in
// unfold { .. }; as it is here, nothing is told of depths. Ends the program where anything fails. Seconds: the model is
// loaded, with small cells.
ZooGraphs UnfoldZoo(const std::string& workload,
                    const std::string& unfold = "phases: OFF ghosts: OFF", size_t most = SIZE_MAX);

}  // namespace cellbatch::ordering

#endif  // CELLBATCH_TESTS_ORDERING_ZOO_GRAPHS_H_
