#include "server/grpc/infer_stream.h"

#include <optional>
#include <string>
#include <utility>

#include "server/requests/admission.h"

namespace cellbatch {

// One message of a stream, and its answer. Keeps the stream.
class InferStream::Message final : public ServerCall, public std::enable_shared_from_this<Message> {
 public:
  Message(InferStream& stream, grpc::ByteBuffer bytes, Encoding encoding, bool slow,
          int64_t received_ns)
      : stream_(stream),
        bytes_(std::move(bytes)),
        encoding_(encoding),
        slow_(slow),
        received_ns_(received_ns),
        most_bytes_(static_cast<int64_t>(bytes_.Length()) +
                    (encoding == Encoding::kPlain ? 0 : stream.MostInflated())) {
    stream_.Hold();
    LookUpToken();
  }
  ~Message() override { stream_.Ended(); }

  std::string_view request() const override {
    return inflated_.empty() ? Bytes(message_) : inflated_;
  }
  int64_t deadline_ns() const override { return stream_.deadline_ns(); }
  int64_t received_ns() const override { return received_ns_; }
  int shard() const override { return slow_ ? stream_.queue_.slow_shard : stream_.queue_.index; }
  uint64_t client() const override { return stream_.client(); }
  const Access* access() const override {
    return access_ == nullptr ? stream_.access() : access_.get();
  }
  std::string client_name() const override { return stream_.client_name(); }
  std::string_view given_id() const override { return stream_.given_id(); }
  std::string_view traceparent() const override { return stream_.traceparent(); }
  int64_t most_bytes() const override { return most_bytes_; }
  AnswerOutlet* outlet() const override { return stream_.outlet(); }
  absl::Status Open() override {
    if (!refused_.ok()) return refused_;
    absl::Status status = stream_.TakeMessage(bytes_, encoding_, message_, inflated_);
    bytes_.Clear();
    return status;
  }
  void Finish(CallResult result) override { stream_.Answered(*this, std::move(result)); }

  bool slow() const { return slow_; }
  size_t bytes() const { return bytes_.Length(); }
  // There is no room for it on the slow lane.
  void Refuse(absl::Status status) {
    refused_ = std::move(status);
    slow_ = false;
    most_bytes_ = 0;
    bytes_.Clear();
  }

  // Under the stream's mutex: its answer; none, as long as it has none. When it goes, what it took of the server goes.
  std::optional<CallResult> answer;

 private:
  // A stream may stay open for as long as its client likes; each message is a request of its own, and has the rights that its
  // token has when it comes.
  void LookUpToken() {
    if (stream_.access() == nullptr) return;
    auto access = stream_.queue_.tokens->Find(stream_.Metadata(kAuthorizationHeader));
    refused_ = access.status();
    if (access.ok()) access_ = *std::move(access);
  }

  InferStream& stream_;
  grpc::ByteBuffer bytes_;
  const Encoding encoding_;
  bool slow_;
  const int64_t received_ns_;
  int64_t most_bytes_;
  grpc::Slice message_;
  std::string inflated_;
  absl::Status refused_;
  std::shared_ptr<const Access> access_;
};

InferStream::InferStream(CallQueue& queue, const GrpcMethod& method)
    : GrpcCall(queue, method), stream_(&context_) {
  method.service->RequestBidi(method.number, &context_, &stream_, queue.completions.get(),
                              &accepted_);
}

void InferStream::Begin() {
  {
    const std::lock_guard lock(mutex_);
    reading_ = true;
    stream_.Read(&bytes_, &read_);
  }
  if (!queue_.open_streams.Add(this, [this] { ServerStops(); })) ServerStops();
}

// What is under way is answered first.
void InferStream::ServerStops() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  EndIfOver();
}

// Nothing was read of it, and nothing will be.
void InferStream::Reject(absl::Status status) {
  const std::lock_guard lock(mutex_);
  no_more_ = ended_ = true;
  stream_.Finish(ToGrpc(status), &finished_);
}

// The queue's thread alone reads, so that bytes_ is its own until the next message is asked for.
void InferStream::OnRead(bool ok) {
  std::vector<std::shared_ptr<Message>> gone;
  std::shared_ptr<Message> message;
  bool over = false;
  if (ok) {
    const Encoding encoding = EncodingOf(context_.c_call());
    // What comes behind a long one that has not begun waits there, too: pieces of a sequence run in the order of their messages.
    const bool slow = IsLong(bytes_, encoding) || on_slow_lane_.load(std::memory_order_acquire) > 0;
    message =
        std::make_shared<Message>(*this, std::move(bytes_), encoding, slow, queue_.clock->NowNs());
    bytes_.Clear();
  }
  {
    const std::lock_guard lock(mutex_);
    reading_ = false;
    no_more_ = !ok;
    over = ended_;
    if (ok && !over) under_way_.push_back(message);
    // Only now may it be cancelled, and the next one be read, on whichever thread an answer comes.
    if (!ok && !over) GoOn(gone);
  }
  if (over) return Ended();  // it was ended while this was on its way, and waited for it
  if (!ok) return;
  StartMessage(message);
  const std::lock_guard lock(mutex_);
  GoOn(gone);
}

void InferStream::StartMessage(const std::shared_ptr<Message>& message) {
  if (!message->slow()) return sink_.Start(*message);
  on_slow_lane_.fetch_add(1, std::memory_order_relaxed);
  const SlowLane::Room room =
      queue_.slow->TryRun(static_cast<int64_t>(message->bytes()), [this, message] {
        sink_.Start(*message);
        on_slow_lane_.fetch_sub(1, std::memory_order_release);
      });
  if (room == SlowLane::Room::kYes) return;
  on_slow_lane_.fetch_sub(1, std::memory_order_relaxed);
  message->Refuse(RefuseSlow(room));
  sink_.Start(*message);
}

void InferStream::ClientGone() {
  std::deque<std::shared_ptr<Message>> left;
  {
    const std::lock_guard lock(mutex_);
    broken_ = true;
    left = under_way_;
  }
  for (const std::shared_ptr<Message>& message : left) {
    if (message->slow()) {
      queue_.slow->Run([this, message] { sink_.Cancelled(*message); });  // behind its start
    } else {
      sink_.Cancelled(*message);
    }
  }
}

void InferStream::Answered(Message& message, CallResult result) {
  const std::shared_ptr<Message> self = message.shared_from_this();
  if (access() != nullptr) access()->Count(result.status);
  std::vector<std::shared_ptr<Message>> gone;  // let go of without the lock
  const std::lock_guard lock(mutex_);
  waiting_bytes_ += result.body.size() + kMessageOverhead;
  message.answer = std::move(result);
  GoOn(gone);
}

void InferStream::OnWritten(bool ok) {
  std::vector<std::shared_ptr<Message>> gone;
  const std::lock_guard lock(mutex_);
  writing_ = false;
  broken_ = broken_ || !ok;
  gone.push_back(std::move(under_way_.front()));
  under_way_.pop_front();
  GoOn(gone);
}

bool InferStream::MayRead() const {
  const auto most = static_cast<size_t>(queue_.methods->bounds().max_stream_requests);
  return !reading_ && !no_more_ && !broken_ && !stopping_ && under_way_.size() < most &&
         waiting_bytes_ < static_cast<size_t>(queue_.stream_buffer_bytes);
}

void InferStream::GoOn(std::vector<std::shared_ptr<Message>>& gone) {
  while (!writing_ && !under_way_.empty() && under_way_.front()->answer.has_value()) {
    CallResult& answer = *under_way_.front()->answer;
    waiting_bytes_ -= answer.body.size() + kMessageOverhead;
    if (!broken_) {
      writing_ = true;
      stream_.Write(ToBuffer(std::move(answer.body)), &written_);
      break;
    }
    gone.push_back(std::move(under_way_.front()));
    under_way_.pop_front();
  }
  if (MayRead()) {
    reading_ = true;
    stream_.Read(&bytes_, &read_);
  }
  EndIfOver();
}

void InferStream::EndIfOver() {
  const bool over = (no_more_ || broken_) && !reading_;
  if (!(over || stopping_) || !under_way_.empty() || std::exchange(ended_, true)) return;
  if (over) return stream_.Finish(grpc::Status::OK, &finished_);
  if (reading_) Hold();  // until that has come back
  stream_.Finish(ToGrpc(ShuttingDown()), &finished_);
}

}  // namespace cellbatch
