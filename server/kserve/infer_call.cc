#include "server/kserve/infer_call.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cells/recycled.h"
#include "server/requests/plain_call.h"
#include "server/wire/wire_codec.h"

namespace cellbatch {

namespace {

// What both ways of asking have in common.
class InferCall : public PlainCall {
 public:
  InferCall(ServerCall& call, RequestPath& path, const MessageScanner& scanner)
      : PlainCall(call, path), scanner_(scanner) {}

 protected:
  std::string_view id() const final { return message_.proto().id(); }
  absl::Status Look(std::string_view message, int64_t& bytes) final {
    absl::Status status = scanner_.Scan(message, scanned_);
    bytes = scanned_.parsing_bytes;
    return status;
  }
  absl::StatusOr<PlainHead> Read(std::string_view bytes) final {
    absl::Status status = message_.Parse(bytes, scanner_, scanned_);
    if (!status.ok()) return status;
    const inference::ModelInferRequest& proto = message_.proto();
    return PlainHead{.model_name = proto.model_name(), .model_version = proto.model_version()};
  }
  absl::Status Spell(int, PlainRequest& request) final { return message_.Spell(model(), request); }
  void Answer(int, absl::Span<const ReturnedTensor> tensors) final {
    body_ = EncodeInferResponse(model(), message_.proto().id(), tensors);
  }

  std::string body_;

 private:
  const MessageScanner& scanner_;
  ScannedMessage scanned_;
  InferMessage message_;
};

class ModelInferCall final : public InferCall, public Recycled<ModelInferCall> {
 public:
  using InferCall::InferCall;

 private:
  std::string_view wire() const override { return "grpc"; }
  std::string Body() override { return std::move(body_); }
};

class StreamedInferCall final : public InferCall, public Recycled<StreamedInferCall> {
 public:
  using InferCall::InferCall;

 private:
  std::string_view wire() const override { return "stream"; }
  std::string Body() override { return EncodeStreamed(std::move(body_)); }
  std::optional<std::string> ErrorBody(const absl::Status& status,
                                       std::string_view request_id) override {
    return EncodeStreamedError(id(), status, request_id);
  }
};

}  // namespace

InferService::InferService(RequestPath& path, const WireLimits& limits, RefusalCounts* counts)
    : path_(path), scanner_(InferScanner(limits, counts)) {}

void InferService::Start(ServerCall& call) {
  PlainCall::Start(std::make_unique<ModelInferCall>(call, path_, scanner_));
}

StreamInferService::StreamInferService(RequestPath& path, const WireLimits& limits,
                                       RefusalCounts* counts)
    : path_(path), scanner_(InferScanner(limits, counts)) {}

void StreamInferService::Start(ServerCall& call) {
  PlainCall::Start(std::make_unique<StreamedInferCall>(call, path_, scanner_));
}

}  // namespace cellbatch
