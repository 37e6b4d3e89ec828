// A method as a sink of raw calls, behind the one scanner: a plain function from message to message that answers at once,
// or one that answers later. Knows no transport; the function runs on the transport's thread.
#ifndef CELLBATCH_SERVER_WIRE_MESSAGE_METHOD_H_
#define CELLBATCH_SERVER_WIRE_MESSAGE_METHOD_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/requests/call.h"
#include "server/wire/message_scanner.h"

namespace cellbatch {

// Whether its caller may ask that: by the model that the message names, where messages of its kind name one, and by what it
// would change.
template <typename Request>
absl::Status CheckAccess(const Access* access, const Request& request) {
  if (access == nullptr) return absl::OkStatus();
  if constexpr (requires { request.settings(); }) {
    absl::Status status = request.settings().empty() ? absl::OkStatus() : access->MayControl();
    if constexpr (requires { request.model_name(); }) {
      // Of a model that it may not ask of, no answer tells whether it is there.
      const bool of_one = !request.model_name().empty();
      if (status.ok() && of_one) status = access->MayAsk(request.model_name());
    }
    return status;
  } else if constexpr (requires { request.model_name(); }) {
    return access->MayAsk(request.model_name());
  } else if constexpr (requires { request.name(); }) {
    return access->MayAsk(request.name());
  } else {
    return absl::OkStatus();
  }
}

template <typename Request>
class MessageMethod final : public CallSink {
 public:
  // The answer's bytes; `by`: who asks, null where nobody is asked who he is.
  using Function = std::function<absl::StatusOr<std::string>(const Request&, const Access* by)>;

  // `counts` outlives it.
  MessageMethod(const WireLimits& limits, RefusalCounts* counts, Function function)
      : scanner_(*Request::descriptor(), limits, {}, counts), function_(std::move(function)) {}

  void Start(ServerCall& call) override {
    Request request;
    CallResult result;
    result.status = call.Open();
    if (result.status.ok()) result.status = scanner_.Parse(call.request(), request);
    if (result.status.ok()) result.status = CheckAccess(call.access(), request);
    if (result.status.ok()) {
      absl::StatusOr<std::string> answer = function_(request, call.access());
      result.status = answer.status();
      if (answer.ok()) result.body = *std::move(answer);
    }
    call.Finish(std::move(result));
  }
  void Cancelled(ServerCall&) override {}

 private:
  const MessageScanner scanner_;
  const Function function_;
};

// What changes what is served. A client that goes away is not told of: what it asked for is done.
template <typename Request>
class LateMethod final : public CallSink {
 public:
  using Done = std::function<void(absl::StatusOr<std::string>)>;  // called once, from any thread
  using Function = std::function<void(const Request&, Done)>;

  // `counts` outlives it.
  LateMethod(const WireLimits& limits, RefusalCounts* counts, Function function)
      : scanner_(*Request::descriptor(), limits, {}, counts), function_(std::move(function)) {}

  void Start(ServerCall& call) override {
    Request request;
    absl::Status status = call.Open();
    if (status.ok()) status = scanner_.Parse(call.request(), request);
    if (status.ok() && call.access() != nullptr) status = call.access()->MayControl();
    if (status.ok()) status = CheckAccess(call.access(), request);
    if (!status.ok()) return Finish(call, std::move(status));
    function_(request,
              [&call](absl::StatusOr<std::string> answer) { Finish(call, std::move(answer)); });
  }
  void Cancelled(ServerCall&) override {}

 private:
  static void Finish(ServerCall& call, absl::StatusOr<std::string> answer) {
    CallResult result;
    result.status = answer.status();
    if (answer.ok()) result.body = *std::move(answer);
    call.Finish(std::move(result));
  }

  const MessageScanner scanner_;
  const Function function_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_WIRE_MESSAGE_METHOD_H_
