// ModelInfer's messages and our own types: the one place where KServe tensors become a RequestInput
// and finished tensors become bytes. Pure functions; any thread.
//
//   bytes --Parse--> InferMessage --(find the model)--> Decode --> RequestInput, borrowing from it
//   ReturnedTensor ... --Encode--> bytes, always raw
//
// Everything a client can get wrong is INVALID_ARGUMENT here, named with the tensor and both
// values; what a cell graph needs beyond that, the unfolder checks. Caps are checked before
// anything is allocated for what they cap (wire_scan.h).
#ifndef CELLBATCH_SERVER_WIRE_WIRE_CODEC_H_
#define CELLBATCH_SERVER_WIRE_WIRE_CODEC_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/cell_graph.h"
#include "cells/model.h"
#include "cells/unfold/request_input.h"
#include "google/protobuf/arena.h"
#include "proto/grpc_service.pb.h"
#include "server/wire/wire_scan.h"

namespace cellbatch {

// A parsed request and all that its RequestInput borrows from. Not movable: it owns an arena.
class InferMessage {
 public:
  InferMessage();
  InferMessage(const InferMessage&) = delete;
  InferMessage& operator=(const InferMessage&) = delete;

  // INVALID_ARGUMENT "malformed ModelInferRequest" or a broken cap.
  absl::Status Parse(std::string_view bytes, const WireLimits& limits);

  // After Parse.
  const inference::ModelInferRequest& proto() const { return *message_; }
  // Instead of Parse: where a service with messages of its own writes the tensors they stand for.
  inference::ModelInferRequest& mutable_proto() { return *message_; }

  // Checks parameters, outputs and tensors against the model's signature, and fills input(). Tokens
  // sent as INT64 are narrowed, typed contents laid out as raw ones, and words beyond the
  // vocabulary replaced where the model says so.
  absl::Status Decode(const Model& model);

  // After Decode; valid as long as this is.
  const RequestInput& input() const { return input_; }
  std::optional<int64_t> timeout_us() const { return timeout_us_; }
  int32_t priority() const { return priority_; }  // 1 to the model's levels; 0: its default
  int64_t payload_bytes() const { return payload_bytes_; }

 private:
  friend class InferDecoder;
  alignas(16) char first_block_[2048];
  google::protobuf::Arena arena_;
  inference::ModelInferRequest* message_;
  std::vector<std::unique_ptr<std::byte[]>> converted_;
  RequestInput input_;
  std::optional<int64_t> timeout_us_;
  int32_t priority_ = 0;
  int64_t payload_bytes_ = 0;
};

// A model name or version as a client may write it: INVALID_ARGUMENT otherwise, before it is used
// to look for anything. Names: 1 to 256 bytes, no separators, control characters or "..".
// Versions: empty, or a decimal number without leading zeros.
absl::Status CheckModelName(std::string_view name);
absl::Status CheckModelVersion(std::string_view version);

// Text of a client, made safe and short for an error or a log line: printable ASCII, at most about
// 64 characters, in double quotes.
std::string Quoted(std::string_view text);

// A ModelInferResponse: `id` echoed, the version that answered, tensors raw in their order; those with names as BYTES.
std::string EncodeInferResponse(const Model& model, std::string_view id,
                                absl::Span<const ReturnedTensor> tensors);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_WIRE_WIRE_CODEC_H_
