#include "server/typed/typed_service.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "google/protobuf/arena.h"
#include "server/requests/client_text.h"
#include "server/requests/plain_call.h"

namespace cellbatch {

namespace {

class TypedInferCall final : public PlainCall {
 public:
  TypedInferCall(ServerCall& call, RequestPath& path, const MessageScanner& scanner,
                 int64_t max_inputs)
      : PlainCall(call, path),
        scanner_(scanner),
        max_inputs_(max_inputs),
        proto_(*google::protobuf::Arena::CreateMessage<v1::InferRequest>(&arena_)) {}

 private:
  std::string_view wire() const override { return "typed"; }
  std::string_view id() const override { return proto_.id(); }
  absl::Status Look(std::string_view message, int64_t& bytes) override {
    absl::Status status = scanner_.Scan(message, scanned_);
    bytes = scanned_.parsing_bytes;
    return status;
  }
  absl::StatusOr<PlainHead> Read(std::string_view message) override {
    absl::Status status = scanner_.ParseScanned(message, scanned_, proto_);
    if (!status.ok()) return status;
    const int inputs = proto_.inputs_size();
    if (inputs == 0 || inputs > max_inputs_) {
      return absl::InvalidArgumentError(
          fmt::format("the request has {} inputs, allowed are 1 to {}", inputs, max_inputs_));
    }
    answers_.resize(static_cast<size_t>(inputs));
    return PlainHead{.model_name = proto_.model_name(),
                     .model_version = proto_.model_version(),
                     .requests = inputs};
  }
  absl::Status Spell(int i, PlainRequest& request) override {
    for (const std::string& name : proto_.outputs()) request.outputs.push_back({name, {}});
    for (const auto& [key, value] : proto_.parameters()) {
      request.parameters.push_back({key, int64_t{value}});
    }
    return ToTensors(proto_.inputs(i), model().signature, made_, request);
  }
  void Answer(int i, absl::Span<const ReturnedTensor> tensors) override {
    answers_[static_cast<size_t>(i)] = EncodeAnswer(tensors);
  }
  bool AnswersError(int i, const absl::Status& status) override {
    answers_[static_cast<size_t>(i)] = EncodeAnswer(status);
    return true;
  }
  std::string Body() override { return EncodeTypedResponse(model(), proto_.id(), answers_); }

  const MessageScanner& scanner_;
  ScannedMessage scanned_;
  const int64_t max_inputs_;
  google::protobuf::Arena arena_;
  v1::InferRequest& proto_;
  MadeContents made_;
  std::vector<std::string> answers_;  // encoded, by place
};

// What a model that decodes answers.
constexpr const char* kWords = "OUTPUT";     // INT32 [L]
constexpr const char* kStopped = "STOPPED";  // INT32 [1]

// Null: the answer has no such list of numbers.
const ReturnedTensor* FindInt32s(absl::Span<const ReturnedTensor> tensors, std::string_view name) {
  for (const ReturnedTensor& t : tensors) {
    if (t.name == name && t.type == WireType::kInt32 && t.dims.size() == 1) return &t;
  }
  return nullptr;
}

class DecodeCall final : public PlainCall {
 public:
  DecodeCall(ServerCall& call, RequestPath& path, const MessageScanner& scanner)
      : PlainCall(call, path), scanner_(scanner) {}

 private:
  std::string_view wire() const override { return "decode"; }
  absl::Status Look(std::string_view message, int64_t& bytes) override {
    absl::Status status = scanner_.Scan(message, scanned_);
    bytes = scanned_.parsing_bytes;
    return status;
  }
  absl::StatusOr<PlainHead> Read(std::string_view message) override {
    absl::Status status = scanner_.ParseScanned(message, scanned_, proto_);
    if (!status.ok()) return status;
    return PlainHead{.model_name = proto_.model_name(), .model_version = proto_.model_version()};
  }
  absl::Status Spell(int i, PlainRequest& request) override;
  absl::Status Check(int i, Request& request) override;
  void OnWords(int i, const Delivery& delivery) override;
  void Answer(int i, absl::Span<const ReturnedTensor> tensors) override;

  absl::Status DecodesNothing() const {
    return absl::InvalidArgumentError(
        fmt::format("model {} decodes nothing: Infer answers it", Quoted(model().name)));
  }
  // Those of the first `count` words that were not sent yet, up to the one that ended them.
  void Send(const ReturnedTensor& words, int32_t count, int32_t last);
  void Write(std::string message);

  const MessageScanner& scanner_;
  ScannedMessage scanned_;
  v1::DecodeRequest proto_;
  MadeContents made_;
  int32_t sent_ = 0;
  bool unread_ = false;  // the client does not read: nothing more is written
};

absl::Status DecodeCall::Spell(int, PlainRequest& request) {
  const Signature& signature = model().signature;
  const bool decodes = std::find(signature.parameters.begin(), signature.parameters.end(),
                                 "max_decode_steps") != signature.parameters.end();
  if (!decodes) return DecodesNothing();
  for (const char* output : {kWords, kStopped}) request.outputs.push_back({output, {}});
  const auto set = [&](const char* key, int64_t value) {
    request.parameters.push_back({key, value});
  };
  if (proto_.has_max_decode_steps()) set("max_decode_steps", proto_.max_decode_steps());
  if (proto_.has_decode_steps()) set("decode_steps", proto_.decode_steps());
  if (proto_.priority() != 0) set("priority", proto_.priority());
  return ToTensors(proto_.source(), signature, made_, request);
}

absl::Status DecodeCall::Check(int, Request& request) {
  const absl::Span<const ReturnedTensor> tensors = request.graph.tensors();
  const ReturnedTensor* stopped = FindInt32s(tensors, kStopped);
  if (FindInt32s(tensors, kWords) == nullptr || stopped == nullptr || stopped->dims[0] != 1) {
    return DecodesNothing();
  }
  request.stream = true;
  return absl::OkStatus();
}

void DecodeCall::OnWords(int, const Delivery& delivery) {
  const CellGraph& graph = delivery.request->graph;
  if (graph.stop_reports().empty()) return;  // its words come with its end
  const StopReport& report = graph.stop_reports()[0];
  const ReturnedTensor& words = graph.tensors()[static_cast<size_t>(report.tensors.words)];
  const Stop& stop = graph.subgraphs()[static_cast<size_t>(report.chain.value())].stop;
  Send(words, delivery.words, stop.value);
}

void DecodeCall::Answer(int, absl::Span<const ReturnedTensor> tensors) {
  const ReturnedTensor& words = *FindInt32s(tensors, kWords);
  const auto length = static_cast<int32_t>(words.dims[0]);
  int32_t stopped = 0;
  std::memcpy(&stopped, FindInt32s(tensors, kStopped)->bytes.data(), sizeof(stopped));
  constexpr int32_t kNoWord = -1;  // the one that ended them is cut off already
  Send(words, length, kNoWord);
  Write(EncodeEnd(length, stopped != 0));
}

void DecodeCall::Send(const ReturnedTensor& words, int32_t count, int32_t last) {
  for (; sent_ < count && !unread_; ++sent_) {
    int32_t word = 0;
    std::memcpy(&word, words.bytes.data() + size_t{sizeof(word)} * static_cast<size_t>(sent_),
                sizeof(word));
    if (word == last) return;
    Write(EncodeWord(sent_, word, words.names));
  }
}

void DecodeCall::Write(std::string message) {
  if (unread_ || call().Write(std::move(message))) return;
  unread_ = true;
  CutOff(absl::ResourceExhaustedError(
      fmt::format("model {}: the client does not read: {} words were sent, and no more wait for it",
                  Quoted(model().name), sent_)));
  Abandon();
}

}  // namespace

TypedInferService::TypedInferService(RequestPath& path, const WireLimits& limits,
                                     RefusalCounts* counts)
    : path_(path),
      max_inputs_(limits.max_typed_inputs),
      scanner_(TypedInferScanner(limits, counts)) {}

void TypedInferService::Start(ServerCall& call) {
  PlainCall::Start(std::make_unique<TypedInferCall>(call, path_, scanner_, max_inputs_));
}

DecodeService::DecodeService(RequestPath& path, const WireLimits& limits, RefusalCounts* counts)
    : path_(path), scanner_(DecodeScanner(limits, counts)) {}

void DecodeService::Start(ServerCall& call) {
  PlainCall::Start(std::make_unique<DecodeCall>(call, path_, scanner_));
}

}  // namespace cellbatch
