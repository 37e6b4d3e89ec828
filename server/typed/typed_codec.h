// Our own typed messages (proto/cellbatch.proto) and plain values: a typed input is spelled as the tensors that
// it stands for, and then takes the one way that all requests take (plain_request.h: the same checks, the same
// texts). Pure functions; any thread.
//
//   bytes --MessageScanner--> v1::InferRequest --ToTensors (each input)--> PlainRequest, borrowing from it
//   ReturnedTensor ... --EncodeAnswer--> bytes of one v1::Answer --EncodeInferResponse--> bytes
#ifndef CELLBATCH_SERVER_TYPED_TYPED_CODEC_H_
#define CELLBATCH_SERVER_TYPED_TYPED_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cells/cell_graph.h"
#include "cells/model.h"
#include "proto/cellbatch.pb.h"
#include "server/requests/plain_request.h"
#include "server/wire/message_scanner.h"

namespace cellbatch {

// Of v1::InferRequests: what every input reads again is capped as ModelInfer's is, and so are raw tensors.
MessageScanner TypedInferScanner(const WireLimits& limits, RefusalCounts* counts = nullptr);
// Of v1::DecodeRequests.
MessageScanner DecodeScanner(const WireLimits& limits, RefusalCounts* counts = nullptr);

// What a typed input says in other words than its tensors do: rows of lists side by side, texts framed. A
// PlainRequest borrows from it; moving it moves none of them.
class MadeContents {
 public:
  absl::Span<const std::byte> Keep(std::string contents) {
    return BytesOf(*kept_.emplace_back(std::make_unique<std::string>(std::move(contents))));
  }

 private:
  std::vector<std::unique_ptr<std::string>> kept_;
};

// Adds the tensors that `input` stands for to `request`, whose lists stay where they are. INVALID_ARGUMENT where
// lists disagree, or where it says two things at once. What the model makes of the tensors is DecodedRequest's.
absl::Status ToTensors(const v1::Input& input, const Signature& signature, MadeContents& made,
                       PlainRequest& request);
absl::Status ToTensors(const v1::Sequence& sequence, const Signature& signature, MadeContents& made,
                       PlainRequest& request);

// One v1::Answer, OK or not.
std::string EncodeAnswer(absl::Span<const ReturnedTensor> tensors);
std::string EncodeAnswer(const absl::Status& status);
// A v1::InferResponse of answers that are encoded already.
std::string EncodeTypedResponse(const Model& model, std::string_view id,
                                absl::Span<const std::string> answers);

// Events of a v1::DecodeResponse stream. `names`: of the words, or null.
std::string EncodeWord(int32_t step, int32_t word, const Vocabulary* names);
std::string EncodeEnd(int32_t length, bool stopped);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_TYPED_TYPED_CODEC_H_
