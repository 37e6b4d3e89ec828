// A plain request against a model's signature: everything a client can get wrong, whatever it wrote in, is
// INVALID_ARGUMENT here, named with the tensor and both values; what a cell graph needs beyond that, the
// unfolder checks. Any thread; allocates per tensor, and copies contents only where they must change.
#ifndef CELLBATCH_SERVER_REQUESTS_DECODED_REQUEST_H_
#define CELLBATCH_SERVER_REQUESTS_DECODED_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "cells/model.h"
#include "cells/unfold/request_input.h"
#include "server/requests/plain_request.h"
#include "server/requests/sequences.h"

namespace cellbatch {

inline constexpr size_t kMaxSequenceIdBytes = 128;  // Triton's bound

class DecodedRequest {
 public:
  // Checks parameters, outputs and tensors, and fills input(), once. Tokens sent as INT64 are narrowed, contents
  // that lie askew laid straight, and words beyond the vocabulary replaced where the model says so. What
  // `request` borrows from stays as long as this; `request` may go.
  absl::Status Decode(const PlainRequest& request, const Model& model);

  // After Decode.
  const RequestInput& input() const { return input_; }
  std::optional<int64_t> timeout_us() const { return timeout_us_; }
  int32_t priority() const { return priority_; }  // 1 to the model's levels; 0: its default
  // Which sequence it is a piece of, of those whose state the server keeps.
  const std::optional<SequencePiece>& sequence() const { return sequence_; }
  // Once the turn of that piece has come: input() begins from `state` (sequence_state.h), and asks for what it leaves.
  void BeginFrom(const SequenceState* state, const Model& model) {
    AddState(model.signature, state, input_);
  }

 private:
  friend class RequestDecoder;
  std::vector<std::unique_ptr<std::byte[]>> converted_;
  RequestInput input_;
  std::optional<int64_t> timeout_us_;
  int32_t priority_ = 0;
  std::optional<SequencePiece> sequence_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_DECODED_REQUEST_H_
