// ModelInfer's messages and plain values: the one place where KServe tensors become a PlainRequest and finished
// tensors become bytes. Pure functions; any thread.
//
//   bytes --Parse--> InferMessage --(find the model)--> Spell --> PlainRequest, borrowing from it
//   ReturnedTensor ... --Encode--> bytes, always raw
//
// Caps are checked before anything is allocated for what they cap (message_scanner.h); what a model makes of the
// tensors is DecodedRequest's.
#ifndef CELLBATCH_SERVER_WIRE_WIRE_CODEC_H_
#define CELLBATCH_SERVER_WIRE_WIRE_CODEC_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/cell_graph.h"
#include "cells/model.h"
#include "google/protobuf/arena.h"
#include "proto/grpc_service.pb.h"
#include "server/requests/plain_request.h"
#include "server/wire/message_scanner.h"

namespace cellbatch {

// Of ModelInferRequests.
MessageScanner InferScanner(const WireLimits& limits, RefusalCounts* counts = nullptr);

// A parsed request and all that what it spells borrows from. Not movable: it owns an arena.
class InferMessage {
 public:
  InferMessage();
  InferMessage(const InferMessage&) = delete;
  InferMessage& operator=(const InferMessage&) = delete;

  // By an InferScanner, whose errors these are.
  absl::Status Parse(std::string_view bytes, const MessageScanner& scanner) {
    return scanner.Parse(bytes, *message_);
  }
  // The same of what it has scanned.
  absl::Status Parse(std::string_view bytes, const MessageScanner& scanner,
                     const ScannedMessage& scanned) {
    return scanner.ParseScanned(bytes, scanned, *message_);
  }

  // After Parse.
  const inference::ModelInferRequest& proto() const { return *message_; }
  // After Parse, once. Contents are where they came; texts in typed contents are copied, framed. INVALID_ARGUMENT:
  // raw and typed contents do not go together, or values are in the field of another datatype.
  absl::Status Spell(const Model& model, PlainRequest& request);

 private:
  absl::Status SpellTyped(const inference::ModelInferRequest::InferInputTensor& input,
                          const Model& model, PlainTensor& tensor);

  alignas(16) char first_block_[2048];
  google::protobuf::Arena arena_;
  inference::ModelInferRequest* message_;
  std::vector<std::string> framed_;  // texts as they travel raw
};

// What a tensor is as raw contents: the numbers that cells left, or the names of them, each with its length in front;
// these are written into `named`. Each has a name (PlainCall::Answer); one that had none would be empty.
std::string_view RawContents(const ReturnedTensor& tensor, std::string& named);

// A ModelInferResponse: `id` echoed, the version that answered, tensors raw in their order; those with names as BYTES.
std::string EncodeInferResponse(const Model& model, std::string_view id,
                                absl::Span<const ReturnedTensor> tensors);

// A ModelStreamInferResponse around a ModelInferResponse: it is the last one of its request (triton_final_response).
std::string EncodeStreamed(std::string response);
// One that says what went wrong with the request of that id; `request_id`: what the log calls it, beside it; empty: nothing.
std::string EncodeStreamedError(std::string_view id, const absl::Status& status,
                                std::string_view request_id);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_WIRE_WIRE_CODEC_H_
