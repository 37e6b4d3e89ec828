// Asynchronous calls as raw bytes, behind the transport seam (call.h): every method of
// grpc_methods.h. One completion queue has one polling thread; a call is made there, and ends there
// or on the slow lane's.
//
//   waiting for a call --kAccepted--> CallSink::Start        --kDone--> gone? CallSink::Cancelled
//   ServerCall::Write  --> buffer --> gRPC, one at a time       --kWritten--> the next, or the end
//   ServerCall::Finish --> gRPC                                 --kFinished-->
//
// Why so: an asynchronous queue costs less CPU a call than the callback API, and raw bytes let us
// answer INVALID_ARGUMENT where gRPC's own parsing would say INTERNAL or UNIMPLEMENTED.
#ifndef CELLBATCH_SERVER_GRPC_GRPC_CALLS_H_
#define CELLBATCH_SERVER_GRPC_GRPC_CALLS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "grpcpp/grpcpp.h"
#include "scheduler/clock.h"
#include "server/grpc/connection_guard.h"
#include "server/grpc/grpc_methods.h"
#include "server/grpc/slow_lane.h"
#include "server/requests/call.h"

namespace cellbatch {

// Streams on which a client may ask at any time, of one queue: whoever stops the server ends those that are idle, which nothing
// else would. Any thread.
class OpenStreams {
 public:
  // `end` is called once, by EndAll. False: that was before.
  bool Add(const void* stream, std::function<void()> end) {
    const std::lock_guard lock(mutex_);
    if (!ended_) end_.emplace(stream, std::move(end));
    return !ended_;
  }
  // Its `end` is not running when this returns, and never will. One that is not there: nothing.
  void Remove(const void* stream) {
    const std::lock_guard lock(mutex_);
    end_.erase(stream);
  }
  void EndAll() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    for (const auto& [stream, end] : end_) end();
  }

 private:
  std::mutex mutex_;
  std::map<const void*, std::function<void()>> end_;
  bool ended_ = false;
};

// What the calls of one completion queue have in common.
struct CallQueue {
  const GrpcMethods* methods = nullptr;
  SlowLane* slow = nullptr;
  const Clock* clock = nullptr;
  const ConnectionGuard* connections = nullptr;
  const AccessTable* tokens = nullptr;  // null: none is asked for
  int index = 0;                        // the shard that its thread may write
  int slow_shard = 0;                   // and that of the slow lane
  int64_t stream_buffer_bytes = 0;      // written to one stream and not yet taken by gRPC
  std::unique_ptr<grpc::ServerCompletionQueue> completions;
  std::atomic<int64_t> streams = 0;  // that clients may go on asking on
  std::atomic<int64_t> open = 0;     // waiting for a call, or in one
  std::atomic<int64_t> last_came_ns = 0;
  std::atomic<bool> stopping = false;
  OpenStreams open_streams;
  std::thread thread;
};

// Lets calls of every method come in. Before the queue is polled, or on its thread.
void AcceptCalls(CallQueue& queue);
// Runs the queue's events until it is shut down and empty: the body of its thread.
void PollCalls(CallQueue& queue);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_GRPC_CALLS_H_
