// A method that answers at once, as a sink of raw calls: a plain function from message to message, behind the one
// scanner. Knows no transport; the function runs on the transport's thread.
#ifndef CELLBATCH_SERVER_WIRE_MESSAGE_METHOD_H_
#define CELLBATCH_SERVER_WIRE_MESSAGE_METHOD_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/requests/call.h"
#include "server/wire/message_scanner.h"

namespace cellbatch {

template <typename Request>
class MessageMethod final : public CallSink {
 public:
  using Function =
      std::function<absl::StatusOr<std::string>(const Request&)>;  // the answer's bytes

  // `counts` outlives it.
  MessageMethod(const WireLimits& limits, RefusalCounts* counts, Function function)
      : scanner_(*Request::descriptor(), limits, {}, counts), function_(std::move(function)) {}

  void Start(ServerCall& call) override {
    Request request;
    CallResult result;
    result.status = call.Open();
    if (result.status.ok()) result.status = scanner_.Parse(call.request(), request);
    if (result.status.ok()) {
      absl::StatusOr<std::string> answer = function_(request);
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

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_WIRE_MESSAGE_METHOD_H_
