// What a request brings, decoded and checked but not yet unfolded: named tensors, borrowed from
// the message they arrived in (or from a test's arrays). The owner keeps the bytes alive until the
// request is answered. Plain value; the gRPC thread's.
#ifndef CELLBATCH_CELLS_UNFOLD_REQUEST_INPUT_H_
#define CELLBATCH_CELLS_UNFOLD_REQUEST_INPUT_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "cells/model.h"

namespace cellbatch {

struct InputTensor {
  std::string_view name;
  WireType type = WireType::kFp32;
  TensorDims dims;
  absl::Span<const std::byte>
      bytes;  // little-endian, row-major, 4-byte aligned; size checked against dims
};

// A number sent beside the tensors, such as max_decode_steps.
struct RequestParameter {
  std::string_view name;
  int64_t value = 0;
};

struct RequestInput {
  absl::InlinedVector<InputTensor, 1> tensors;  // at most one of a name
  std::vector<std::string_view> outputs;        // asked for by name; empty: OUTPUT alone
  std::vector<RequestParameter> parameters;     // of Signature::parameters; at most one of a name

  const InputTensor* Find(std::string_view name) const {
    for (const InputTensor& t : tensors) {
      if (t.name == name) return &t;
    }
    return nullptr;
  }
  std::optional<int64_t> FindParameter(std::string_view name) const {
    for (const RequestParameter& p : parameters) {
      if (p.name == name) return p.value;
    }
    return std::nullopt;
  }
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_REQUEST_INPUT_H_
