// The requests that a server recorded (--record), as graphs to learn an order from: those of one model that ended well.
#ifndef CELLBATCH_SERVER_LEARN_RECORDED_REQUESTS_H_
#define CELLBATCH_SERVER_LEARN_RECORDED_REQUESTS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "cells/model.h"
#include "server/learn/learn_requests.h"

namespace cellbatch {

// At most `most` of them, drawn by the seed where there are more, in the order in which they came. Chains that stopped are
// as long as they ran. INVALID_ARGUMENT: no record; none of that model, or of its cell types as they are now.
absl::StatusOr<LearnRequests> ReadRecordedRequests(const std::string& file, const Model& model,
                                                   size_t most, uint64_t seed);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_LEARN_RECORDED_REQUESTS_H_
