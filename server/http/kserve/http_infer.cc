#include "server/http/kserve/http_infer.h"

#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "server/http/kserve/infer_json.h"
#include "server/http/kserve/infer_reply.h"
#include "server/http/kserve/kserve_pages.h"
#include "server/requests/client_identity.h"
#include "server/requests/client_text.h"
#include "server/requests/plain_call.h"
#include "server/trace/trace_context.h"

namespace cellbatch {

namespace {

constexpr std::string_view kHeaderBytes = "Inference-Header-Content-Length";
constexpr size_t kWrittenElsewhere = 64
                                     << 10;  // JSON of more than this is not the responder's work

// An exchange as a call. Lives until it is finished, and as long as a hang-up may be told of.
class HttpCall final : public ServerCall {
 public:
  HttpCall(std::shared_ptr<HttpExchange> exchange, int shard, const AccessTable* tokens)
      : exchange_(std::move(exchange)), shard_(shard) {
    if (tokens == nullptr) return;
    auto access = tokens->Find(Header(kAuthorizationHeader));
    let_in_ = access.status();
    if (access.ok()) access_ = *std::move(access);
  }

  absl::Status Open() override { return let_in_; }
  const Access* access() const override { return access_.get(); }
  std::string_view request() const override { return exchange_->request().body; }
  int64_t deadline_ns() const override { return kNoDeadline; }
  int64_t received_ns() const override { return exchange_->received_ns(); }
  int shard() const override { return shard_; }
  uint64_t client() const override {
    return ClientOf(Header(kTenantHeader), Header(kAuthorizationHeader),
                    exchange_->request().certificate, exchange_->request().address);
  }

  std::string client_name() const override {
    return ClientName(access_ == nullptr ? "" : access_->name(), Header(kTenantHeader),
                      Header(kAuthorizationHeader), exchange_->request().certificate,
                      exchange_->peer());
  }
  std::string_view given_id() const override { return Header(kRequestIdName); }
  std::string_view traceparent() const override { return Header(kTraceparent); }

  void KeepUntilFinished(std::shared_ptr<HttpCall> self) { self_ = std::move(self); }
  // What Finish is to say; before it.
  void SetReply(InferReply reply) { reply_ = std::move(reply); }

  void Finish(CallResult result) override {
    const std::shared_ptr<HttpCall> self = std::move(self_);
    if (access_ != nullptr) access_->Count(result.status);
    if (!result.status.ok()) {
      HttpReply reply = ErrorReply(result.status, result.pushback_ms);
      if (!result.request_id.empty()) {
        reply.headers.emplace_back(kRequestIdName, std::move(result.request_id));
      }
      return exchange_->Reply(std::move(reply));
    }
    result.ticket.Keep({1, 0, static_cast<int64_t>(reply_.bytes())});
    auto ticket = std::make_shared<const Ticket>(std::move(result.ticket));
    if (reply_.bytes() <= kWrittenElsewhere) return Write(*exchange_, reply_, std::move(ticket));
    exchange_->Run([exchange = exchange_, reply = std::move(reply_), ticket = std::move(ticket)] {
      Write(*exchange, reply, ticket);
    });
  }

 private:
  std::string_view Header(std::string_view name) const {
    const std::string* const value = exchange_->request().Header(name);
    return value != nullptr ? std::string_view(*value) : std::string_view();
  }
  static void Write(HttpExchange& exchange, const InferReply& reply,
                    std::shared_ptr<const Ticket> ticket) {
    auto encoded = EncodeReply(reply);
    if (!encoded.ok()) return exchange.Reply(ErrorReply(encoded.status()));
    HttpReply out{.content_type = kJsonType, .body = std::move(encoded->body)};
    if (encoded->json_bytes < out.body.size()) {
      out.content_type = "application/octet-stream";
      out.headers.emplace_back(kHeaderBytes, std::to_string(encoded->json_bytes));
    }
    out.held = std::move(ticket);
    exchange.Reply(std::move(out));
  }

  const std::shared_ptr<HttpExchange> exchange_;
  const int shard_;
  std::shared_ptr<const Access> access_;
  absl::Status let_in_;
  InferReply reply_;
  std::shared_ptr<HttpCall> self_;
};

class HttpInferCall final : public PlainCall {
 public:
  HttpInferCall(HttpCall& call, RequestPath& path, const KServePath& target,
                const std::string* header_bytes, const WireLimits& limits, RefusalCounts* counts)
      : PlainCall(call, path),
        call_(call),
        target_(target),
        header_bytes_(header_bytes),
        limits_(limits),
        counts_(counts) {}

 private:
  std::string_view wire() const override { return "http"; }
  std::string_view id() const override { return message_.id(); }
  // How much of the body is JSON; none: the header that says so is no number.
  std::optional<size_t> JsonBytes(std::string_view body) const {
    size_t bytes = body.size();
    if (header_bytes_ == nullptr) return bytes;
    const char* const last = header_bytes_->data() + header_bytes_->size();
    const auto [end, error] = std::from_chars(header_bytes_->data(), last, bytes);
    if (error != std::errc() || end != last) return std::nullopt;
    return bytes;
  }
  absl::Status Look(std::string_view body, int64_t& bytes) override {
    const std::string_view json = body.substr(0, JsonBytes(body).value_or(0));
    bytes = InferJson::MostBytes(json) - static_cast<int64_t>(json.size());
    return absl::OkStatus();
  }
  absl::StatusOr<PlainHead> Read(std::string_view body) override {
    const std::optional<size_t> json_bytes = JsonBytes(body);
    if (!json_bytes.has_value()) {
      return absl::InvalidArgumentError(
          fmt::format("{} is {}, which is no number", kHeaderBytes, Quoted(*header_bytes_)));
    }
    absl::Status status = message_.Parse(body, *json_bytes, limits_, counts_);
    if (!status.ok()) return status;
    return PlainHead{.model_name = target_.model, .model_version = target_.version};
  }
  absl::Status Spell(int, PlainRequest& request) override {
    message_.Spell(request);
    return absl::OkStatus();
  }
  void Answer(int, absl::Span<const ReturnedTensor> tensors) override {
    call_.SetReply(KeepReply(model(), message_, tensors));
  }

  HttpCall& call_;
  const KServePath target_;
  const std::string* const header_bytes_;  // the exchange's
  const WireLimits& limits_;
  RefusalCounts* const counts_;
  InferJson message_;
};

}  // namespace

std::optional<HttpReply> HttpInferService::RefuseHead(const HttpRequest& head) {
  const std::string* const encoding = head.Header("Content-Encoding");
  if (encoding == nullptr || *encoding == "identity") return std::nullopt;
  HttpReply reply = ErrorReply(absl::InvalidArgumentError(fmt::format(
      "Content-Encoding {}: bodies are taken as they are, not compressed", Quoted(*encoding))));
  reply.status = 415;
  return reply;
}

void HttpInferService::Answer(const std::shared_ptr<HttpExchange>& exchange,
                              const KServePath& target) {
  const auto call =
      std::make_shared<HttpCall>(exchange, first_shard_ + exchange->thread(), tokens_);
  call->KeepUntilFinished(call);
  PlainCall::Start(std::make_unique<HttpInferCall>(
      *call, path_, target, exchange->request().Header(kHeaderBytes), limits_, counts_));
  // Only now, as a cancel never comes before Start has returned; the reply may have gone by then.
  exchange->OnHangUp([call, path = &path_] { path->Cancel(*call); });
}

}  // namespace cellbatch
