// The requests of the zoo's workloads as typed graphs, unfolded by the server's own unfolders: what the benchmark
// `batches` and the tests of learning order.
#ifndef CELLBATCH_TESTS_ORDERING_ZOO_GRAPHS_H_
#define CELLBATCH_TESTS_ORDERING_ZOO_GRAPHS_H_

#include <string>
#include <vector>

#include "scheduler/offline/typed_graph.h"

namespace cellbatch::ordering {

struct ZooGraphs {
  std::string source;                // of the data
  std::vector<std::string> types;    // names, by id
  std::vector<int32_t> priorities;   // by type
  std::vector<TypedGraph> requests;  // in the file's order, of what the papers' programs compute
  // Requests first .. first + count - 1 side by side.
  TypedGraph Batch(size_t first, size_t count) const;
};

// A name of zoo::WorkloadNames(). Ends the program where anything fails. Seconds: the model is loaded, with small cells.
ZooGraphs UnfoldZoo(const std::string& workload);

}  // namespace cellbatch::ordering

#endif  // CELLBATCH_TESTS_ORDERING_ZOO_GRAPHS_H_
