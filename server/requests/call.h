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
#ifndef CELLBATCH_SERVER_REQUESTS_CALL_H_
#define CELLBATCH_SERVER_REQUESTS_CALL_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "scheduler/request.h"
#include "server/requests/access.h"
#include "server/requests/admission.h"
#include "server/requests/answer_outlet.h"
#include "server/requests/client_text.h"
#include "server/requests/wait_id.h"

namespace cellbatch {

inline constexpr int64_t kNoDeadline = std::numeric_limits<int64_t>::max();

struct CallResult {
  absl::Status status;
  std::string body;                    // of an OK answer
  std::optional<int32_t> pushback_ms;  // grpc-retry-pushback-ms; negative: do not retry
  std::string request_id;              // kRequestIdName, for the client; empty: it is not told
  // What the answer takes of the server until the client has it. The transport keeps it until it has let the
  // answer go, or the client is gone: so unread answers are bounded, and a drain waits for them.
  Ticket ticket;
};

// Where a cancel and the submission of what it cancels meet, in either order. One store each.
class CancelSlot {
 public:
  // What there is to cancel.
  struct Found {
    absl::Span<const RequestId> ids;
    WaitId wait;
  };
  // Who submits later, once: until it publishes, a cancel finds what it waits as.
  void Wait(WaitId id) {
    wait_ = id;
    State expected = State::kNothing;
    state_.compare_exchange_strong(expected, State::kWaits, std::memory_order_acq_rel);
  }
  // Submitter, once: from now on a cancel finds `ids`, all that the call has submitted. False: the
  // cancel came first, and the submitter delivers it.
  bool Publish(absl::Span<const RequestId> ids) {
    ids_.assign(ids.begin(), ids.end());
    State before = state_.load(std::memory_order_relaxed);
    while (before != State::kCancelled) {
      if (state_.compare_exchange_weak(before, State::kPublished, std::memory_order_acq_rel)) {
        return true;
      }
    }
    return false;
  }
  bool Publish(RequestId id) { return Publish(absl::MakeConstSpan(&id, 1)); }
  // Transport, or who gives the client up: what there is to cancel, if it is known already and was
  // not cancelled before.
  Found Cancel() {
    const State before = state_.exchange(State::kCancelled, std::memory_order_acq_rel);
    if (before == State::kPublished) return {ids_, {}};
    return {{}, before == State::kWaits ? wait_ : WaitId()};
  }
  bool cancelled() const { return state_.load(std::memory_order_acquire) == State::kCancelled; }

 private:
  enum class State : uint8_t { kNothing, kWaits, kPublished, kCancelled };
  std::atomic<State> state_ = State::kNothing;
  absl::InlinedVector<RequestId, 1> ids_;  // the submitter's until published
  WaitId wait_;                            // likewise, until it waits
};

class ServerCall {
 public:
  virtual ~ServerCall() = default;
  ServerCall() = default;
  ServerCall(const ServerCall&) = delete;
  ServerCall& operator=(const ServerCall&) = delete;

  // The most that the message takes before it is whole and when it is: of one that came compressed, what it may become.
  virtual int64_t most_bytes() const { return static_cast<int64_t>(request().size()); }
  // Makes the message whole. An error is what the transport itself found wrong with it; the service answers it.
  virtual absl::Status Open() { return absl::OkStatus(); }
  // After Open: the message, contiguous; valid until Finish.
  virtual std::string_view request() const = 0;
  // Steady-clock nanoseconds, kNoDeadline if the client set none.
  virtual int64_t deadline_ns() const = 0;
  // When the transport had the whole message.
  virtual int64_t received_ns() const = 0;
  // Which of the transport's threads started it: the shard that thread may write.
  virtual int shard() const = 0;
  // Who asks, as far as the transport can tell: a hash (client_identity.h). Who is not told apart is 0.
  virtual uint64_t client() const { return 0; }
  // What it may do; null: everything. Valid until Finish.
  virtual const Access* access() const { return nullptr; }
  // The same for people, no secret in it. Allocates; before Finish.
  virtual std::string client_name() const { return {}; }
  // What came as kRequestIdName; empty: nothing. Valid until Finish.
  virtual std::string_view given_id() const { return {}; }
  // W3C's traceparent as it came (trace/trace_context.h); empty: it did not. Likewise.
  virtual std::string_view traceparent() const { return {}; }
  // Calls that are answered by a stream only: one message of it, before Finish, from one thread at a
  // time. Never waits. False: the client does not read; more than the transport's bound would lie
  // here, the message was not taken, and the call should end.
  virtual bool Write(std::string /*message*/) { return false; }
  // The answer, exactly once, from any thread. The call may be gone when it returns. Of a stream: its
  // end, after all that was written; the body is empty.
  virtual void Finish(CallResult result) = 0;
  // Where what is written and finished leaves; null: nothing is gained by waiting there. Valid until Finish.
  virtual AnswerOutlet* outlet() const { return nullptr; }

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

#endif  // CELLBATCH_SERVER_REQUESTS_CALL_H_
