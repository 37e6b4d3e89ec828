// One call of gRPC, whatever its method: what grpc_calls.h says of all of them, and what each kind of call is made of. A kind
// adds how its messages are read and its answers written. For the queue's own sources.
#ifndef CELLBATCH_SERVER_GRPC_GRPC_CALL_H_
#define CELLBATCH_SERVER_GRPC_GRPC_CALL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "grpcpp/grpcpp.h"
#include "server/grpc/grpc_calls.h"
#include "server/grpc/grpc_compression.h"
#include "server/grpc/grpc_values.h"
#include "server/requests/client_identity.h"
#include "server/trace/trace_context.h"

namespace cellbatch {

inline constexpr size_t kMessageOverhead = 64;     // of a message in a buffer, beside its bytes
inline constexpr size_t kLongMessage = 256 << 10;  // some 100 us of looking at it

class GrpcCall;

// What a completion is for.
struct Tag {
  enum class Kind : uint8_t { kAccepted, kDone, kRead, kWritten, kFinished };
  GrpcCall* call;
  Kind kind;
};

// One call, from waiting for it to its end.
class GrpcCall : public ServerCall {
 public:
  std::string_view request() const override {
    return inflated_.empty() ? Bytes(message_) : inflated_;
  }
  int64_t deadline_ns() const override { return deadline_ns_; }
  int64_t received_ns() const override { return received_ns_; }
  int shard() const override { return slow_ ? queue_.slow_shard : queue_.index; }
  uint64_t client() const override { return client_; }
  const Access* access() const override { return access_.get(); }
  std::string client_name() const override {
    return ClientName(access_ == nullptr ? "" : access_->name(), Metadata(kTenantHeader),
                      Metadata(kAuthorizationHeader), Certificate(),
                      Relayed() ? connection_->address : context_.peer());
  }
  std::string_view given_id() const override { return Metadata(kRequestIdName); }
  std::string_view traceparent() const override { return Metadata(kTraceparent); }
  int64_t most_bytes() const override { return most_bytes_; }
  absl::Status Open() override {
    if (std::exchange(opened_, true)) return transport_status_;
    const Encoding encoding = EncodingOf(context_.c_call());
    transport_status_ = TakeMessage(bytes_, encoding, message_, inflated_);
    if (encoding == Encoding::kUnknown && absl::IsUnimplemented(transport_status_)) {
      context_.AddTrailingMetadata("grpc-accept-encoding", "identity, deflate, gzip");
    }
    bytes_.Clear();
    return transport_status_;
  }
  AnswerOutlet* outlet() const override { return connection_.get(); }

  // On the queue's thread.
  void OnAccepted(bool ok);
  void OnDone() {
    if (context_.IsCancelled()) ClientGone();
    Ended();
  }
  virtual void OnRead(bool /*ok*/) {}
  virtual void OnWritten(bool /*ok*/) {}
  void OnFinished() {
    answer_.Release();  // gRPC has sent it, or the client is gone
    Ended();
  }

 protected:
  GrpcCall(CallQueue& queue, const GrpcMethod& method)
      : queue_(queue), method_(method), sink_(*method.sink) {
    queue.open.fetch_add(1);
    context_.AsyncNotifyWhenDone(&done_);
  }
  ~GrpcCall() override {
    if (connection_ != nullptr) connection_->CallEnded();
    queue_.open.fetch_sub(1);
  }

  absl::Status Refuse(Refused why, const absl::Status& status, const char* flag) const {
    queue_.methods->refusals().Add(why);
    return {status.code(), fmt::format("{} ({})", std::string(status.message()), flag)};
  }
  // The call is there; of all but bidirectional ones with its message.
  virtual void Begin() { StartOnMessage(); }
  void StartOnMessage();
  // On the queue's thread.
  virtual void ClientGone() {
    if (slow_) {
      RunSlowly([this] { sink_.Cancelled(*this); });  // behind its start
    } else {
      sink_.Cancelled(*this);
    }
  }
  // Not let in: answered by who answers all calls of the method, and counts them. Its message is let go.
  virtual void Reject(absl::Status status);
  // Another call of this method that waits to come in.
  virtual void AcceptAnother() = 0;
  // Before the answer is gRPC's.
  void Answered(CallResult& result) {
    if (access_ != nullptr) access_->Count(result.status);
    answer_ = std::move(result.ticket);
    if (!result.request_id.empty()) {
      context_.AddTrailingMetadata(std::string(kRequestIdName), result.request_id);
    }
    if (!result.pushback_ms) result.pushback_ms = pushback_ms_;
    if (!result.pushback_ms) return;
    context_.AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(*result.pushback_ms));
  }

  // The call stays until it was done.
  template <typename Work>
  void RunSlowly(Work work) {
    Hold();
    queue_.slow->Run([this, work] {
      work();
      Ended();
    });
  }
  void Hold() { holders_.fetch_add(1, std::memory_order_relaxed); }
  void Ended() {
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  // Makes `bytes`, which came so, one message: a view of them, or what was inflated of them. An error is the client's. Any
  // thread.
  absl::Status TakeMessage(grpc::ByteBuffer& bytes, Encoding encoding, grpc::Slice& message,
                           std::string& inflated) const;
  int64_t MostInflated() const {
    return method_.max_bytes > 0 ? method_.max_bytes : queue_.methods->bounds().max_inflated_bytes;
  }
  // What is refused for want of room on the slow lane.
  absl::Status RefuseSlow(SlowLane::Room room) const;
  static bool IsLong(const grpc::ByteBuffer& bytes, Encoding encoding) {
    return bytes.Length() > kLongMessage || encoding != Encoding::kPlain;
  }
  static std::string_view Bytes(const grpc::Slice& slice) {
    return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
  }

  // What the call brings by that name, the first; empty: nothing.
  std::string_view Metadata(std::string_view name) const {
    const auto found = context_.client_metadata().find({name.data(), name.size()});
    if (found == context_.client_metadata().end()) return {};
    return {found->second.data(), found->second.size()};
  }

  CallQueue& queue_;
  const GrpcMethod& method_;
  CallSink& sink_;
  grpc::ServerContext context_;
  grpc::ByteBuffer bytes_;
  Tag accepted_{this, Tag::Kind::kAccepted};
  Tag finished_{this, Tag::Kind::kFinished};

 private:
  void StartHere() {
    opened_ = false;
    most_bytes_ = static_cast<int64_t>(bytes_.Length());
    if (EncodingOf(context_.c_call()) != Encoding::kPlain) most_bytes_ += MostInflated();
    sink_.Start(*this);
  }
  void StartRefused(SlowLane::Room room);
  absl::Status CheckMetadata() const;
  // Whether it came over TLS (server/tls), by a connection that the peer itself does not show; and what its certificate names.
  bool Relayed() const { return connection_ != nullptr && !connection_->address.empty(); }
  std::string_view Certificate() const {
    return Relayed() ? std::string_view(connection_->certificate) : std::string_view();
  }

  std::shared_ptr<ConnectionGuard::Account> connection_;  // null: it is gone
  grpc::Slice message_;
  std::string inflated_;  // the message, if it came compressed
  int64_t deadline_ns_ = kNoDeadline;
  int64_t received_ns_ = 0;
  uint64_t client_ = 0;
  std::shared_ptr<const Access> access_;
  bool opened_ = false;
  int64_t most_bytes_ = 0;
  absl::Status transport_status_;
  std::optional<int32_t> pushback_ms_;  // of that
  Ticket answer_;
  bool slow_ = false;
  // gRPC, until it is done with the call; our answer, until it was taken; and what the slow lane is to do for it.
  std::atomic<int> holders_ = 2;
  Tag done_{this, Tag::Kind::kDone};
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_GRPC_CALL_H_
