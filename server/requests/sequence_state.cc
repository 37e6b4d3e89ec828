#include "server/requests/sequence_state.h"

#include <algorithm>
#include <cstring>

#include "cells/check.h"
#include "server/requests/plain_request.h"

namespace cellbatch {

int64_t StateBytes(const Signature& signature) {
  int64_t bytes = 0;
  for (const StateTensor& part : signature.state) {
    int64_t values = 1;
    for (const int64_t dim : part.dims) values *= dim;
    bytes += values * static_cast<int64_t>(sizeof(float));
  }
  return bytes;
}

void AddState(const Signature& signature, const SequenceState* state, RequestInput& input) {
  if (input.outputs.empty()) input.outputs.push_back(signature.outputs.front().name);
  for (size_t i = 0; i < signature.state.size(); ++i) {
    const StateTensor& part = signature.state[i];
    if (state != nullptr) {
      input.tensors.push_back({.name = part.initial,
                               .type = WireType::kFp32,
                               .dims = TensorDims(part.dims.begin(), part.dims.end()),
                               .bytes = BytesOf(state->tensors[i])});
    }
    if (std::find(input.outputs.begin(), input.outputs.end(), part.left) == input.outputs.end()) {
      input.outputs.push_back(part.left);
    }
  }
}

std::shared_ptr<const SequenceState> TakeState(const Signature& signature,
                                               absl::Span<const ReturnedTensor> tensors) {
  auto state = std::make_shared<SequenceState>();
  for (const StateTensor& part : signature.state) {
    const auto left =
        std::find_if(tensors.begin(), tensors.end(),
                     [&](const ReturnedTensor& tensor) { return tensor.name == part.left; });
    Check(left != tensors.end(), "an answer without the state that it was asked for");
    std::vector<float>& values = state->tensors.emplace_back(left->bytes.size() / sizeof(float));
    std::memcpy(values.data(), left->bytes.data(), left->bytes.size());
  }
  return state;
}

}  // namespace cellbatch
