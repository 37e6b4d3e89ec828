// The requests that an order is learned from, as graphs.
#ifndef CELLBATCH_SERVER_LEARN_LEARN_REQUESTS_H_
#define CELLBATCH_SERVER_LEARN_LEARN_REQUESTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/model.h"
#include "scheduler/offline/typed_graph.h"

namespace cellbatch {

struct LearnRequests {
  std::string source;  // for people: the file's name, or what was made up
  std::vector<TypedGraph> graphs;
};

// `file` empty: made up. `outputs` as a request names them. INVALID_ARGUMENT "FILE:LINE: what is wrong".
absl::StatusOr<LearnRequests> ReadLearnRequests(const std::string& file, const Model& model,
                                                const std::vector<std::string_view>& outputs,
                                                uint64_t seed);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_LEARN_LEARN_REQUESTS_H_
