// The requests that an order is learned from, as graphs.
#ifndef CELLBATCH_SERVER_LEARN_LEARN_REQUESTS_H_
#define CELLBATCH_SERVER_LEARN_LEARN_REQUESTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/cell_graph.h"
#include "cells/model.h"
#include "scheduler/offline/typed_graph.h"

namespace cellbatch {

struct LearnRequests {
  std::string source;  // for people: the file's name, or what was made up
  std::vector<TypedGraph> graphs;
  // Any of them once more, to be run: for that many tasks in flight. The model it was read for must live.
  std::function<CellGraph(int32_t request, int max_tasks_in_flight)> make;
};

// `file` empty: made up. A record (cellbatch-server --record): what of it is the model's. `outputs` as a request names them. INVALID_ARGUMENT "FILE:LINE: what is wrong".
absl::StatusOr<LearnRequests> ReadLearnRequests(const std::string& file, const Model& model,
                                                const std::vector<std::string_view>& outputs,
                                                uint64_t seed);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_LEARN_LEARN_REQUESTS_H_
