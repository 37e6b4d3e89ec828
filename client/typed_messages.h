// Between our own typed messages and the client's plain values. Pure functions.

#ifndef CELLBATCH_CLIENT_TYPED_MESSAGES_H_
#define CELLBATCH_CLIENT_TYPED_MESSAGES_H_

#include "absl/status/statusor.h"
#include "client/typed.h"
#include "proto/cellbatch.pb.h"

namespace cellbatch {

v1::InferRequest ToMessage(const InferManyInput& input);
v1::DecodeRequest ToMessage(const DecodeInput& input);

// INTERNAL where the answer breaks the protocol: an output whose values do not fill its shape.
absl::StatusOr<InferManyResult> FromMessage(const v1::InferResponse& response);
DecodedWord FromMessage(const v1::Word& word);

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_TYPED_MESSAGES_H_
