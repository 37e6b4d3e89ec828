// The state of a sequence between its pieces, where the server keeps it (sequences.h): what a model with INITIAL_H and FINAL_H
// (cells/unfold/chain_states.h) lets a client bring and take itself.
//
//   piece:  X, sequence_id 7      --AddState-->   X, INITIAL_H (of 7)    asked: OUTPUT, and FINAL_H behind
//   answer: OUTPUT                <--TakeState--  OUTPUT, FINAL_H (now 7's)
//
// So what is computed, and its bits, are those of a client that does both. Pure functions; any thread.
#ifndef CELLBATCH_SERVER_REQUESTS_SEQUENCE_STATE_H_
#define CELLBATCH_SERVER_REQUESTS_SEQUENCE_STATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "cells/cell_graph.h"
#include "cells/model.h"
#include "cells/unfold/request_input.h"

namespace cellbatch {

// By tensor of Signature::state.
struct SequenceState {
  std::vector<std::vector<float>> tensors;
};

// What one takes; 0: the model has none that a request could bring.
int64_t StateBytes(const Signature& signature);

// `input` begins from `state` (null: from zeros, or what it brings itself), and asks for what it leaves behind all that it asked
// for before. `state` stays as long as `input`.
void AddState(const Signature& signature, const SequenceState* state, RequestInput& input);

// What the tensors of its answer say it leaves.
std::shared_ptr<const SequenceState> TakeState(const Signature& signature,
                                               absl::Span<const ReturnedTensor> tensors);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_SEQUENCE_STATE_H_
