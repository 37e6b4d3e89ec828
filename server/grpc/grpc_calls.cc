#include "server/grpc/grpc_calls.h"

#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cells/recycled.h"
#include "fmt/format.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/infer_stream.h"
#include "server/requests/admission.h"
#include "server/wire/inflate.h"

namespace cellbatch {

namespace {

absl::Status InflateMessage(const grpc::ByteBuffer& bytes, Packing packing, int64_t most,
                            std::string& inflated) {
  std::vector<grpc::Slice> slices;
  if (!bytes.Dump(&slices).ok()) return absl::InternalError("gRPC has no message");
  std::vector<std::string_view> pieces;
  for (const grpc::Slice& slice : slices) {
    pieces.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return Inflate(pieces, packing, most, inflated);
}

}  // namespace

void GrpcCall::OnAccepted(bool ok) {
  if (!ok) {  // shutting down: there was no call
    delete this;
    return;
  }
  if (!queue_.stopping.load()) AcceptAnother();
  received_ns_ = queue_.clock->NowNs();
  queue_.last_came_ns.store(received_ns_, std::memory_order_relaxed);
  // What a probe brings is short (--grpc-max-query-bytes), compressed or not.
  const bool inference = method_.max_bytes == 0;
  slow_ = method_.slow || (inference && IsLong(bytes_, EncodingOf(context_.c_call())));
  deadline_ns_ = SteadyDeadline(context_.raw_deadline(), received_ns_);
  const std::string peer = context_.peer();
  connection_ = queue_.connections->Find(peer);
  if (connection_ != nullptr) connection_->CallCame();
  client_ = ClientOf(Metadata(kTenantHeader), Metadata(kAuthorizationHeader), Certificate(),
                     Relayed() ? connection_->address : peer);
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

absl::Status GrpcCall::RefuseSlow(SlowLane::Room room) const {
  const SlowLimits& most = queue_.slow->limits();
  const bool by_calls = room == SlowLane::Room::kNoCalls;
  return Refuse(by_calls ? Refused::kSlowCalls : Refused::kSlowBytes,
                absl::ResourceExhaustedError(fmt::format(
                    "as many {} as may wait for the thread that takes large messages, compressed "
                    "ones and queries: {}",
                    by_calls ? "calls" : "bytes", by_calls ? most.max_calls : most.max_bytes)),
                by_calls ? "--grpc-max-slow-calls" : "--grpc-max-slow-bytes");
}

void GrpcCall::StartRefused(SlowLane::Room room) {
  pushback_ms_ = queue_.slow->RetryMs();
  GrpcCall::Reject(RefuseSlow(room));
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
absl::Status GrpcCall::TakeMessage(grpc::ByteBuffer& bytes, Encoding encoding, grpc::Slice& message,
                                   std::string& inflated) const {
  message = grpc::Slice();  // of a stream: the one before
  inflated.clear();
  if (absl::Status status = CheckMetadata(); !status.ok()) return status;
  const auto size = static_cast<int64_t>(bytes.Length());
  if (method_.max_bytes > 0 && size > method_.max_bytes) {
    return Refuse(Refused::kQueryBytes,
                  absl::ResourceExhaustedError(fmt::format(
                      "the message has {} bytes, the most is {}", size, method_.max_bytes)),
                  "--grpc-max-query-bytes");
  }
  switch (encoding) {
    case Encoding::kPlain:
      break;
    case Encoding::kGzip:
    case Encoding::kDeflate: {
      const auto packing = encoding == Encoding::kGzip ? Packing::kGzip : Packing::kDeflate;
      absl::Status status = InflateMessage(bytes, packing, MostInflated(), inflated);
      if (!absl::IsResourceExhausted(status)) return status;
      inflated = {};
      return Refuse(Refused::kInflatedBytes, status, "--grpc-max-inflated-bytes");
    }
    case Encoding::kUnknown:
      return absl::UnimplementedError(
          "the message is compressed by a grpc-encoding that is none of identity, deflate and "
          "gzip");
  }
  if (!bytes.TrySingleSlice(&message).ok() && !bytes.DumpToSingleSlice(&message).ok()) {
    message = grpc::Slice();
  }
  return absl::OkStatus();
}

namespace {

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
// is under way, on the queue's thread or the slow lane's. When the server stops, what is under way is answered first.
class BidiCall final : public GrpcCall {
 public:
  BidiCall(CallQueue& queue, const GrpcMethod& method)
      : GrpcCall(queue, method), stream_(&context_) {
    method.service->RequestBidi(method.number, &context_, &stream_, queue.completions.get(),
                                &accepted_);
  }
  ~BidiCall() override {
    queue_.open_streams.Remove(this);
    queue_.streams -= begun_ ? 1 : 0;
  }
  void OnRead(bool ok) override {
    bool over = false;
    {
      const std::lock_guard lock(mutex_);
      reading_ = false;
      over = ended_;
    }
    if (over) {
      Ended();  // the server stopped meanwhile; the end waited for this
    } else if (ok) {
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
    if (!queue_.open_streams.Add(this, [this] { ServerStops(); })) ServerStops();
  }
  void Read() {
    const std::lock_guard lock(mutex_);
    if (stopping_) return End(ShuttingDown());
    reading_ = true;
    stream_.Read(&bytes_, &read_);
  }
  void ServerStops() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (!reading_ || std::exchange(ended_, true)) return;
    Hold();  // until the read has come back
    End(ShuttingDown());
  }
  void Reject(absl::Status status) override { End(status); }
  void End(const absl::Status& status) { stream_.Finish(ToGrpc(status), &finished_); }

  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_;
  Tag read_{this, Tag::Kind::kRead};
  Tag written_{this, Tag::Kind::kWritten};
  bool begun_ = false;
  std::mutex mutex_;  // what follows
  bool reading_ = false;
  bool stopping_ = false;  // the server
  bool ended_ = false;     // by that, while a message was read
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
          if (method.many) {
            new InferStream(queue, method);
          } else {
            new BidiCall(queue, method);
          }
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
