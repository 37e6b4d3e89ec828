#include "server/grpc/grpc_calls.h"

#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cells/recycled.h"
#include "fmt/format.h"
#include "server/grpc/grpc_compression.h"
#include "server/grpc/grpc_values.h"
#include "server/requests/client_identity.h"
#include "server/wire/inflate.h"

namespace cellbatch {

namespace {

constexpr size_t kMessageOverhead = 64;     // of a message in a buffer, beside its bytes
constexpr size_t kLongMessage = 256 << 10;  // some 100 us of looking at it

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
  int64_t most_bytes() const override { return most_bytes_; }
  absl::Status Open() override {
    if (std::exchange(opened_, true)) return transport_status_;
    transport_status_ = TakeMessage();
    bytes_.Clear();
    return transport_status_;
  }
  AnswerOutlet* outlet() const override { return connection_.get(); }

  // On the queue's thread.
  void OnAccepted(bool ok);
  void OnDone() {
    const bool cancelled = context_.IsCancelled();
    if (cancelled && slow_) {
      RunSlowly([this] { sink_.Cancelled(*this); });  // behind its start
    } else if (cancelled) {
      sink_.Cancelled(*this);
    }
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
  // Not let in: answered by who answers all calls of the method, and counts them. Its message is let go.
  virtual void Reject(absl::Status status);
  // Another call of this method that waits to come in.
  virtual void AcceptAnother() = 0;
  // Before the answer is gRPC's.
  void Answered(CallResult& result) {
    if (access_ != nullptr) access_->Count(result.status);
    answer_ = std::move(result.ticket);
    if (!result.pushback_ms) result.pushback_ms = pushback_ms_;
    if (!result.pushback_ms) return;
    context_.AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(*result.pushback_ms));
  }

  CallQueue& queue_;
  const GrpcMethod& method_;
  CallSink& sink_;
  grpc::ServerContext context_;
  grpc::ByteBuffer bytes_;
  Tag accepted_{this, Tag::Kind::kAccepted};
  Tag finished_{this, Tag::Kind::kFinished};

 private:
  static std::string_view Bytes(const grpc::Slice& slice) {
    return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
  }
  void StartHere() {
    opened_ = false;
    most_bytes_ = static_cast<int64_t>(bytes_.Length());
    if (EncodingOf(context_.c_call()) != Encoding::kPlain) most_bytes_ += MostInflated();
    sink_.Start(*this);
  }
  int64_t MostInflated() const {
    return method_.max_bytes > 0 ? method_.max_bytes : queue_.methods->bounds().max_inflated_bytes;
  }
  void StartRefused(SlowLane::Room room);
  absl::Status CheckMetadata() const;
  absl::Status TakeMessage();
  absl::Status InflateMessage(Packing packing);

  // What the call brings by that name, the first; empty: nothing.
  std::string_view Metadata(std::string_view name) const {
    const auto found = context_.client_metadata().find({name.data(), name.size()});
    if (found == context_.client_metadata().end()) return {};
    return {found->second.data(), found->second.size()};
  }

  // The call stays until it was done.
  template <typename Work>
  void RunSlowly(Work work) {
    holders_.fetch_add(1, std::memory_order_relaxed);
    queue_.slow->Run([this, work] {
      work();
      Ended();
    });
  }
  void Ended() {
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
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

void GrpcCall::OnAccepted(bool ok) {
  if (!ok) {  // shutting down: there was no call
    delete this;
    return;
  }
  if (!queue_.stopping.load()) AcceptAnother();
  received_ns_ = queue_.clock->NowNs();
  // What a probe brings is short (--grpc-max-query-bytes), compressed or not.
  const bool inference = method_.max_bytes == 0;
  slow_ = method_.slow || (inference && (bytes_.Length() > kLongMessage ||
                                         EncodingOf(context_.c_call()) != Encoding::kPlain));
  deadline_ns_ = SteadyDeadline(context_.raw_deadline(), received_ns_);
  const std::string peer = context_.peer();
  connection_ = queue_.connections->Find(peer);
  if (connection_ != nullptr) connection_->CallCame();
  const bool relayed = connection_ != nullptr && !connection_->address.empty();
  client_ = ClientOf(Metadata(kTenantHeader), Metadata(kAuthorizationHeader),
                     relayed ? connection_->certificate : std::string_view(),
                     relayed ? connection_->address : peer);
  if (queue_.tokens == nullptr || method_.open) return Begin();
  auto access = queue_.tokens->Find(Metadata(kAuthorizationHeader));
  if (!access.ok()) return Reject(access.status());
  access_ = *std::move(access);
  Begin();
}

void GrpcCall::StartOnMessage() {
  if (!slow_) return StartHere();
  holders_.fetch_add(1, std::memory_order_relaxed);
  const SlowLane::Room room = queue_.slow->TryRun(static_cast<int64_t>(bytes_.Length()), [this] {
    StartHere();
    Ended();
  });
  if (room == SlowLane::Room::kYes) return;  // it may be over by now
  Ended();
  StartRefused(room);
}

void GrpcCall::StartRefused(SlowLane::Room room) {
  const SlowLimits& most = queue_.slow->limits();
  const bool by_calls = room == SlowLane::Room::kNoCalls;
  pushback_ms_ = queue_.slow->RetryMs();
  GrpcCall::Reject(
      Refuse(by_calls ? Refused::kSlowCalls : Refused::kSlowBytes,
             absl::ResourceExhaustedError(fmt::format(
                 "as many {} as may wait for the thread that takes large messages, compressed ones "
                 "and queries: {}",
                 by_calls ? "calls" : "bytes", by_calls ? most.max_calls : most.max_bytes)),
             by_calls ? "--grpc-max-slow-calls" : "--grpc-max-slow-bytes"));
}

void GrpcCall::Reject(absl::Status status) {
  transport_status_ = std::move(status);
  slow_ = false;
  opened_ = true;
  most_bytes_ = 0;
  bytes_.Clear();
  message_ = grpc::Slice();  // of a stream: the one before
  inflated_.clear();
  sink_.Start(*this);
}

// gRPC bounds what each frame of a header block brings; the call has what all of them brought.
absl::Status GrpcCall::CheckMetadata() const {
  constexpr size_t kEach = 32;  // as gRPC and HTTP/2 count them
  size_t bytes = 0;
  for (const auto& [name, value] : context_.client_metadata()) {
    bytes += name.size() + value.size() + kEach;
  }
  const int64_t most = queue_.methods->bounds().max_metadata_bytes;
  if (static_cast<int64_t>(bytes) <= most) return absl::OkStatus();
  return Refuse(Refused::kMetadata,
                absl::ResourceExhaustedError(
                    fmt::format("the metadata has {} bytes, the most is {}", bytes, most)),
                "--grpc-max-metadata-bytes");
}

// Of one that is refused nothing is copied.
absl::Status GrpcCall::TakeMessage() {
  message_ = grpc::Slice();  // of a stream: the one before
  inflated_.clear();
  if (absl::Status status = CheckMetadata(); !status.ok()) return status;
  const auto size = static_cast<int64_t>(bytes_.Length());
  if (method_.max_bytes > 0 && size > method_.max_bytes) {
    return Refuse(Refused::kQueryBytes,
                  absl::ResourceExhaustedError(fmt::format(
                      "the message has {} bytes, the most is {}", size, method_.max_bytes)),
                  "--grpc-max-query-bytes");
  }
  switch (EncodingOf(context_.c_call())) {
    case Encoding::kPlain:
      break;
    case Encoding::kGzip:
      return InflateMessage(Packing::kGzip);
    case Encoding::kDeflate:
      return InflateMessage(Packing::kDeflate);
    case Encoding::kUnknown:
      context_.AddTrailingMetadata("grpc-accept-encoding", "identity, deflate, gzip");
      return absl::UnimplementedError(
          "the message is compressed by a grpc-encoding that is none of identity, deflate and "
          "gzip");
  }
  if (!bytes_.TrySingleSlice(&message_).ok() && !bytes_.DumpToSingleSlice(&message_).ok()) {
    message_ = grpc::Slice();
  }
  return absl::OkStatus();
}

absl::Status GrpcCall::InflateMessage(Packing packing) {
  std::vector<grpc::Slice> slices;
  if (!bytes_.Dump(&slices).ok()) return absl::InternalError("gRPC has no message");
  std::vector<std::string_view> pieces;
  for (const grpc::Slice& slice : slices) pieces.push_back(Bytes(slice));
  absl::Status status = Inflate(pieces, packing, MostInflated(), inflated_);
  if (absl::IsResourceExhausted(status)) {
    inflated_ = {};
    status = Refuse(Refused::kInflatedBytes, status, "--grpc-max-inflated-bytes");
  }
  return status;
}

class UnaryCall final : public GrpcCall, public Recycled<UnaryCall> {
 public:
  UnaryCall(CallQueue& queue, const GrpcMethod& method)
      : GrpcCall(queue, method), writer_(&context_) {
    method.service->RequestUnary(method.number, &context_, &bytes_, &writer_,
                                 queue.completions.get(), &accepted_);
  }
  void Finish(CallResult result) override {
    Answered(result);
    if (result.status.ok()) {
      writer_.Finish(ToBuffer(std::move(result.body)), grpc::Status::OK, &finished_);
    } else {
      writer_.FinishWithError(ToGrpc(result.status), &finished_);
    }
  }

 private:
  void AcceptAnother() override { new UnaryCall(queue_, method_); }

  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> writer_;
};

// gRPC takes one message of a stream at a time: the others wait here, bounded.
class StreamCall final : public GrpcCall {
 public:
  StreamCall(CallQueue& queue, const GrpcMethod& method)
      : GrpcCall(queue, method), writer_(&context_) {
    method.service->RequestStreaming(method.number, &context_, &bytes_, &writer_,
                                     queue.completions.get(), &accepted_);
  }

  bool Write(std::string message) override {
    const std::lock_guard lock(mutex_);
    if (broken_) return true;  // nobody is there; the cancel is on its way
    const size_t size = message.size() + kMessageOverhead;
    if (waiting_bytes_ + size > static_cast<size_t>(queue_.stream_buffer_bytes)) return false;
    waiting_bytes_ += size;
    waiting_.push_back(std::move(message));
    if (!writing_) WriteNext();
    return true;
  }

  void OnWritten(bool ok) override {
    std::unique_lock lock(mutex_);
    writing_ = false;
    if (!ok) {
      broken_ = true;
      waiting_.clear();
      waiting_bytes_ = 0;
    }
    if (!waiting_.empty()) {
      WriteNext();
      return;
    }
    if (!end_) return;
    CallResult result = *std::move(end_);
    lock.unlock();
    End(std::move(result));
  }

  void Finish(CallResult result) override {
    {
      const std::lock_guard lock(mutex_);
      if (writing_) {
        end_ = std::move(result);
        return;
      }
    }
    End(std::move(result));
  }

 private:
  void AcceptAnother() override { new StreamCall(queue_, method_); }

  // With the lock; its event waits for that.
  void WriteNext() {
    std::string message = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_bytes_ -= message.size() + kMessageOverhead;
    writing_ = true;
    writer_.Write(ToBuffer(std::move(message)), &written_);
  }
  // Without the lock: the call may be gone before this returns.
  void End(CallResult result) {
    Answered(result);
    writer_.Finish(ToGrpc(result.status), &finished_);
  }

  grpc::ServerAsyncWriter<grpc::ByteBuffer> writer_;
  Tag written_{this, Tag::Kind::kWritten};
  std::mutex mutex_;
  std::deque<std::string> waiting_;
  size_t waiting_bytes_ = 0;
  bool writing_ = false;  // a message is gRPC's
  bool broken_ = false;   // and the last one did not get through
  std::optional<CallResult> end_;
};

// A stream of questions, each answered before the next is read: each as a call of its own to the sink. One thing at a time
// is under way, on the queue's thread or the slow lane's.
class BidiCall final : public GrpcCall {
 public:
  BidiCall(CallQueue& queue, const GrpcMethod& method)
      : GrpcCall(queue, method), stream_(&context_) {
    method.service->RequestBidi(method.number, &context_, &stream_, queue.completions.get(),
                                &accepted_);
  }
  ~BidiCall() override { queue_.streams -= begun_ ? 1 : 0; }
  void OnRead(bool ok) override {
    if (ok) {
      StartOnMessage();
    } else {
      End(absl::OkStatus());  // no more questions
    }
  }
  void OnWritten(bool ok) override {
    if (ok) {
      Read();
    } else {
      End(absl::OkStatus());
    }
  }
  void Finish(CallResult result) override {
    if (result.status.ok()) {
      stream_.Write(ToBuffer(std::move(result.body)), &written_);
    } else {
      End(result.status);
    }
  }

 private:
  void AcceptAnother() override { new BidiCall(queue_, method_); }
  void Begin() override {
    const int64_t most = queue_.methods->bounds().max_reflection_streams;
    if (queue_.streams >= most) {
      End(Refuse(Refused::kStreams,
                 absl::ResourceExhaustedError(fmt::format("{} such streams are open", most)),
                 "--grpc-max-reflection-streams"));
      return;
    }
    begun_ = true;
    ++queue_.streams;
    Read();
  }
  void Read() { stream_.Read(&bytes_, &read_); }
  void Reject(absl::Status status) override { End(status); }
  void End(const absl::Status& status) { stream_.Finish(ToGrpc(status), &finished_); }

  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_;
  Tag read_{this, Tag::Kind::kRead};
  Tag written_{this, Tag::Kind::kWritten};
  bool begun_ = false;
};

}  // namespace

void AcceptCalls(CallQueue& queue) {
  for (const GrpcMethod& method : queue.methods->all()) {
    for (int i = 0; i < method.accepts; ++i) {
      switch (method.streams) {
        case Streams::kNone:
          new UnaryCall(queue, method);
          break;
        case Streams::kAnswers:
          new StreamCall(queue, method);
          break;
        case Streams::kBoth:
          new BidiCall(queue, method);
          break;
      }
    }
  }
}

void PollCalls(CallQueue& queue) {
  void* completed = nullptr;
  for (bool ok = false; queue.completions->Next(&completed, &ok);) {
    const Tag& tag = *static_cast<Tag*>(completed);
    switch (tag.kind) {
      case Tag::Kind::kAccepted:
        tag.call->OnAccepted(ok);
        break;
      case Tag::Kind::kDone:
        tag.call->OnDone();
        break;
      case Tag::Kind::kRead:
        tag.call->OnRead(ok);
        break;
      case Tag::Kind::kWritten:
        tag.call->OnWritten(ok);
        break;
      case Tag::Kind::kFinished:
        tag.call->OnFinished();
        break;
    }
  }
}

}  // namespace cellbatch
