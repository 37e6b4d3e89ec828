// A stream of requests of which many are under way at once (ModelStreamInfer): each message is a call of its own to the sink,
// and has one answer; the answers go back in the order of the requests.
//
//   read 1, 2, 3 --> sink: Message 1 ..(computes)..     Message 2: done, waits     Message 3 ..
//                             | done
//                             v
//                    write 1, then 2                   (3 when it is done)
//
// So a client that counts is right, and one that goes by ids is, too; on one stream a short request waits for a longer one
// before it, on two it does not. No more than --grpc-stream-requests are under way on a stream, nor more than
// --grpc-stream-buffer of answers that nobody reads: then the next message is not read, and HTTP/2 lets the client wait. When
// the client is gone all that is under way is cancelled. When the server stops the stream ends as soon as nothing is under way on
// it, UNAVAILABLE: its client may go on elsewhere.
//
// Threads: messages start, one after the other as they came, on the queue's thread, or, where they are long or compressed or
// behind such a one that has not started, on the slow lane's; answers come from any. A mutex a stream, held for as long as a
// list is looked at and gRPC is handed something.
#ifndef CELLBATCH_SERVER_GRPC_INFER_STREAM_H_
#define CELLBATCH_SERVER_GRPC_INFER_STREAM_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "server/grpc/grpc_call.h"

namespace cellbatch {

class InferStream final : public GrpcCall {
 public:
  // Waits for a stream of that method to come in. Deletes itself.
  InferStream(CallQueue& queue, const GrpcMethod& method);
  ~InferStream() override { queue_.open_streams.Remove(this); }

  void OnRead(bool ok) override;
  void OnWritten(bool ok) override;
  // Of a call of one message; a stream's have their own.
  void Finish(CallResult) override {}

 private:
  class Message;

  void AcceptAnother() override { new InferStream(queue_, method_); }
  void Begin() override;
  void Reject(absl::Status status) override;
  void ClientGone() override;
  void ServerStops();
  void StartMessage(const std::shared_ptr<Message>& message);
  void Answered(Message& message, CallResult result);
  // With the lock. What is handed over comes back on the queue's thread.
  bool MayRead() const;
  void GoOn(std::vector<std::shared_ptr<Message>>& gone);
  void EndIfOver();

  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_;
  Tag read_{this, Tag::Kind::kRead};
  Tag written_{this, Tag::Kind::kWritten};
  // Messages that have not started there. The queue's thread alone adds.
  std::atomic<int> on_slow_lane_ = 0;
  std::mutex mutex_;
  std::deque<std::shared_ptr<Message>>
      under_way_;             // as they came; the first one's answer is the next to be written
  size_t waiting_bytes_ = 0;  // of answers not yet taken
  bool reading_ = false, writing_ = false;
  bool no_more_ = false;   // messages will come
  bool broken_ = false;    // nothing gets through any more
  bool stopping_ = false;  // the server, so that no further message is taken
  bool ended_ = false;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_INFER_STREAM_H_
