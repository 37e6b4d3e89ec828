// The transport seam: a call as the service sees it. Bytes come in; bytes or a status go out; a
// cancel may come at any time. gRPC stands behind it in the server (grpc_transport), a fake in
// tests (fake_transport), so that everything on this side runs under the thread sanitizer.
//
//   transport thread           service                         responder thread
//   ----------------           -------                         ----------------
//   CallSink::Start(call) ---> decode, admit, Submit
//                              call.cancel_slot().Publish(id)
//   CallSink::Cancelled(call)  Notify(id, kCancelled)
//                                                              call.Finish(answer)
//
// Lifetime: the transport owns the call and keeps it until Finish was called and every Start or
// Cancelled that it is delivering has returned. The service never touches a call after Finish.
#ifndef CELLBATCH_SERVER_CALL_H_
#define CELLBATCH_SERVER_CALL_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "scheduler/request.h"

namespace cellbatch {

inline constexpr int64_t kNoDeadline = std::numeric_limits<int64_t>::max();

struct CallResult {
  absl::Status status;
  std::string body;                    // of an OK answer
  std::optional<int32_t> pushback_ms;  // grpc-retry-pushback-ms; negative: do not retry
};

// Where a cancel and the submission of what it cancels meet, in either order. One store each.
class CancelSlot {
 public:
  // Submitter, once: from now on a cancel finds `id`. False: the cancel came first, and the
  // submitter delivers it.
  bool Publish(RequestId id) {
    uint64_t expected = 0;
    return state_.compare_exchange_strong(expected, Pack(id), std::memory_order_acq_rel);
  }
  // Transport: what there is to cancel, if it is known already.
  std::optional<RequestId> Cancel() {
    const uint64_t before = state_.exchange(kCancelled, std::memory_order_acq_rel);
    if (before == 0 || before == kCancelled) return std::nullopt;
    return RequestId{static_cast<uint32_t>(before), static_cast<uint32_t>(before >> 32)};
  }
  bool cancelled() const { return state_.load(std::memory_order_acquire) == kCancelled; }

 private:
  // A published id is never 0 or 1: its generation, in the upper half, is not 0.
  static constexpr uint64_t kCancelled = 1;
  static uint64_t Pack(RequestId id) { return uint64_t{id.generation} << 32 | id.slot; }

  std::atomic<uint64_t> state_ = 0;
};

class ServerCall {
 public:
  virtual ~ServerCall() = default;
  ServerCall() = default;
  ServerCall(const ServerCall&) = delete;
  ServerCall& operator=(const ServerCall&) = delete;

  // The message, contiguous; valid until Finish.
  virtual std::string_view request() const = 0;
  // Steady-clock nanoseconds, kNoDeadline if the client set none.
  virtual int64_t deadline_ns() const = 0;
  // When the transport had the whole message.
  virtual int64_t received_ns() const = 0;
  // Which of the transport's threads started it: the shard that thread may write.
  virtual int shard() const = 0;
  // What the transport itself found wrong with the message; the service answers it.
  virtual absl::Status transport_status() const { return absl::OkStatus(); }
  // The answer, exactly once, from any thread. The call may be gone when it returns.
  virtual void Finish(CallResult result) = 0;

  CancelSlot& cancel_slot() { return cancel_slot_; }

 private:
  CancelSlot cancel_slot_;
};

// What a transport delivers calls to.
class CallSink {
 public:
  virtual ~CallSink() = default;
  // A message has arrived. Never waits; the answer may come before it returns, or much later.
  virtual void Start(ServerCall& call) = 0;
  // The client has gone away (or its deadline has passed). At most once, never before Start has
  // returned, possibly beside Finish.
  virtual void Cancelled(ServerCall& call) = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CALL_H_
