#include "server/kserve/infer_call.h"

#include <memory>
#include <string>
#include <utility>

#include "cells/recycled.h"
#include "server/requests/plain_call.h"
#include "server/wire/wire_codec.h"

namespace cellbatch {

namespace {

class ModelInferCall final : public PlainCall, public Recycled<ModelInferCall> {
 public:
  ModelInferCall(ServerCall& call, RequestPath& path, const MessageScanner& scanner)
      : PlainCall(call, path), scanner_(scanner) {}

 private:
  absl::Status Look(std::string_view message, int64_t& bytes) override {
    absl::Status status = scanner_.Scan(message, scanned_);
    bytes = scanned_.parsing_bytes;
    return status;
  }
  absl::StatusOr<PlainHead> Read(std::string_view bytes) override {
    absl::Status status = message_.Parse(bytes, scanner_, scanned_);
    if (!status.ok()) return status;
    const inference::ModelInferRequest& proto = message_.proto();
    return PlainHead{.model_name = proto.model_name(), .model_version = proto.model_version()};
  }
  absl::Status Spell(int, PlainRequest& request) override {
    return message_.Spell(model(), request);
  }
  void Answer(int, absl::Span<const ReturnedTensor> tensors) override {
    body_ = EncodeInferResponse(model(), message_.proto().id(), tensors);
  }
  std::string Body() override { return std::move(body_); }

  const MessageScanner& scanner_;
  ScannedMessage scanned_;
  InferMessage message_;
  std::string body_;
};

}  // namespace

InferService::InferService(RequestPath& path, const WireLimits& limits, RefusalCounts* counts)
    : path_(path), scanner_(InferScanner(limits, counts)) {}

void InferService::Start(ServerCall& call) {
  PlainCall::Start(std::make_unique<ModelInferCall>(call, path_, scanner_));
}

}  // namespace cellbatch
