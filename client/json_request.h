// Requests from text, for the command line.

#ifndef CELLBATCH_CLIENT_JSON_REQUEST_H_
#define CELLBATCH_CLIENT_JSON_REQUEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace cellbatch {

// A request in the JSON form of the KServe v2 protocol:
//
//   {"id": "7", "inputs": [{"name": "TOKENS", "shape": [3], "datatype": "INT32", "data": [1, 2,
//   3]}],
//    "outputs": [{"name": "OUTPUT"}], "parameters": {"priority": 1}}
//
// `data` may be nested. INVALID_ARGUMENT names what is wrong; a member that stands nowhere above is.
absl::StatusOr<InferInput> RequestFromJson(const std::string& text);

// "17 4 250", "17,4,250".
absl::StatusOr<std::vector<int32_t>> TokensFromText(const std::string& text);

// A sequence of `steps` random tokens or vectors for the one input of a model, from a seed.
// Vocabularies come from the configuration's parameter vocabulary_size. FAILED_PRECONDITION where
// the model reads something else, or keeps its vocabulary's size to itself.
absl::StatusOr<Tensor> RandomSequence(const ModelMetadata& metadata,
                                      const ModelConfiguration& config, int64_t steps,
                                      uint64_t seed);

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_JSON_REQUEST_H_
