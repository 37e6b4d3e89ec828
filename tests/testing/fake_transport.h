// A transport of one call at a time, in this process: what tests of the service use instead of gRPC.
// The test is the client: it starts a call, may cancel it, and waits for its answer.
#ifndef CELLBATCH_TESTS_TESTING_FAKE_TRANSPORT_H_
#define CELLBATCH_TESTS_TESTING_FAKE_TRANSPORT_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/requests/call.h"

namespace cellbatch {

class FakeCall final : public ServerCall {
 public:
  explicit FakeCall(std::string message, int64_t received_ns = 0, int64_t deadline_ns = kNoDeadline,
                    int shard = 0)
      : message_(std::move(message)),
        received_ns_(received_ns),
        deadline_ns_(deadline_ns),
        shard_(shard) {}
  // Keeps the transport's promise: it ends after the answer and after every delivery.
  ~FakeCall() override { Wait(); }

  void StartOn(CallSink& sink) { sink.Start(*this); }
  // As gRPC: never before Start has returned, at most once, possibly beside the answer.
  void CancelOn(CallSink& sink) { sink.Cancelled(*this); }

  const CallResult& Wait() {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [this] { return answers_ > 0; });
    return result_;
  }
  // Streams: the messages written so far; and after so many, a client that does not read.
  std::vector<std::string> messages() const {
    const std::lock_guard lock(mutex_);
    return messages_;
  }
  void StopReadingAfter(size_t messages) {
    const std::lock_guard lock(mutex_);
    most_messages_ = messages;
  }
  // A client that does not take its answer, until it does.
  void LeaveAnswer() {
    const std::lock_guard lock(mutex_);
    reads_answer_ = false;
  }
  void TakeAnswer() {
    const std::lock_guard lock(mutex_);
    result_.ticket.Release();
  }
  // Where its answer leaves.
  void SendThrough(std::shared_ptr<AnswerOutlet> outlet) { outlet_ = std::move(outlet); }
  int answers() const {
    const std::lock_guard lock(mutex_);
    return answers_;
  }

  std::string_view request() const override { return message_; }
  int64_t deadline_ns() const override { return deadline_ns_; }
  int64_t received_ns() const override { return received_ns_; }
  int shard() const override { return shard_; }
  AnswerOutlet* outlet() const override { return outlet_.get(); }
  bool Write(std::string message) override {
    const std::lock_guard lock(mutex_);
    if (messages_.size() >= most_messages_) return false;
    messages_.push_back(std::move(message));
    return true;
  }
  void Finish(CallResult result) override {
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    if (reads_answer_) result_.ticket.Release();
    ++answers_;
    finished_.notify_all();
  }

 private:
  const std::string message_;
  const int64_t received_ns_;
  const int64_t deadline_ns_;
  const int shard_;
  std::shared_ptr<AnswerOutlet> outlet_;
  mutable std::mutex mutex_;
  std::condition_variable finished_;
  CallResult result_;
  std::vector<std::string> messages_;
  size_t most_messages_ = SIZE_MAX;
  bool reads_answer_ = true;
  int answers_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_TESTING_FAKE_TRANSPORT_H_
