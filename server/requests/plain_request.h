// One request for inference as plain values, whatever it was written in: named tensors, outputs asked for,
// parameters. The hub between wire formats and the way to the scheduler:
//
//   ModelInfer   wire/wire_codec -----+
//   Infer,Decode typed/typed_codec ---+--> PlainRequest --DecodedRequest (a model's signature)--> RequestInput
//   HTTP ... ------------------------+         |
//                                              +-- taken to the scheduler and back by plain_call.h
//
// Names, texts and contents are borrowed from the message they came in, or from what the call made of it, both of
// which stay until the request is answered; this itself may go once it is decoded. A request of few tensors
// allocates nothing here.
#ifndef CELLBATCH_SERVER_REQUESTS_PLAIN_REQUEST_H_
#define CELLBATCH_SERVER_REQUESTS_PLAIN_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace cellbatch {

struct PlainTensor {
  std::string_view name;
  std::string_view datatype;  // KServe's word, as the client wrote it
  absl::InlinedVector<int64_t, 4> shape;
  // Little-endian, row-major, at any address. BYTES: each element with its length in front, 4 bytes.
  absl::Span<const std::byte> contents;
  // For what is said about them: what the place that they were in is called; or, where they are absent, what
  // could have been there.
  std::string_view written_in = "raw contents";
  bool absent = false;
  int64_t values =
      -1;  // how many were written, where the format counts them; -1: their bytes say it
  std::string_view unsupported;  // a parameter of the tensor that nobody serves; empty: none
};

struct PlainOutput {
  std::string_view name;
  std::string_view unsupported;  // as above
};

// Nothing: a parameter of a kind that no parameter of ours has.
using PlainValue = std::variant<std::monostate, bool, int64_t, uint64_t, std::string_view>;

struct PlainParameter {
  std::string_view key;
  PlainValue value;
};

struct PlainRequest {
  absl::InlinedVector<PlainTensor, 3> inputs;
  absl::InlinedVector<PlainOutput, 4> outputs;        // none: OUTPUT alone
  absl::InlinedVector<PlainParameter, 4> parameters;  // at most one of a key
};

// A list of numbers, or a text, as contents.
template <typename Values>
absl::Span<const std::byte> BytesOf(const Values& values) {
  return {reinterpret_cast<const std::byte*>(values.data()),
          static_cast<size_t>(values.size()) * sizeof(*values.data())};
}

// Which model a message is for, and how many requests it brings.
struct PlainHead {
  std::string_view model_name;
  std::string_view model_version;  // empty: the newest
  int requests = 1;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_PLAIN_REQUEST_H_
