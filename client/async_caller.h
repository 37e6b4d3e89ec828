// Sends prepared requests without waiting, for load generation: no message is built, no answer is
// parsed (of Infer's, the codes are read), and what is needed for a call lies ready before the first one.
//
//   sender thread --Send()--> slot --> gRPC ... gRPC --> completion thread --OnDone()-->
//
//   kModelInfer   one request, one answer                    inference.GRPCInferenceService/ModelInfer
//   kInfer        many inputs in one message                 cellbatch.v1.Cellbatch/Infer
//   kDecode       words as they come; the first is timed     cellbatch.v1.Cellbatch/Decode
//
// Costs on the sender are gRPC's own (10 to 20 us a call over loopback). Calls spread over several
// connections, because one has a limit of streams and one lock.

#ifndef CELLBATCH_CLIENT_ASYNC_CALLER_H_
#define CELLBATCH_CLIENT_ASYNC_CALLER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace cellbatch {

enum class PreparedCall : uint8_t { kModelInfer, kInfer, kDecode };

// A request's message in two parts, both borrowed until its answer has come. Many requests may share
// either.
struct PreparedRequest {
  std::string_view header;
  std::string_view content = {};
  PreparedCall call = PreparedCall::kModelInfer;
  uint32_t inputs = 1;  // of kInfer: so many answers are due, each of them right
};

// Whole messages.
std::string PreparedMessage(const InferInput& input);
std::string PreparedMessage(const InferManyInput& input);
std::string PreparedMessage(const DecodeInput& input);

// The first part of a ModelInferRequest, up to the bytes of its one tensor, of which there are `content_bytes`.
std::string PreparedHeader(const InferInput& input, size_t content_bytes);

struct AsyncCallerOptions {
  std::string url = "localhost:8001";
  int connections = 4;
  int completion_threads = 1;
  int most_in_flight = 65536;                        // beyond: Send refuses
  std::chrono::nanoseconds timeout{10'000'000'000};  // then DEADLINE_EXCEEDED
  std::chrono::milliseconds connect_timeout{5000};
  Security security = {};
  std::function<void()> on_thread_start = {};  // on each completion thread, first
};

class AsyncCaller {
 public:
  struct Done {
    uint64_t tag;
    absl::StatusCode code;
    const std::string& text;     // the server's words where code is no kOk; valid during the call
    int64_t at_ns;               // steady clock, as soon as gRPC handed the answer over
    int64_t first_word_ns = -1;  // of kDecode: likewise, the first word; -1: there was none
    int64_t words = 0;           // of kDecode: how many came
  };
  // Called once for each request sent, on a completion thread; may call Send.
  using OnDone = std::function<void(const Done&)>;

  // Waits until every connection stands: UNAVAILABLE where it does not.
  static absl::StatusOr<std::unique_ptr<AsyncCaller>> Create(AsyncCallerOptions options,
                                                             OnDone on_done);

  // Cancels what is in flight and waits for its completions; callbacks that send meanwhile are
  // refused.
  ~AsyncCaller();

  AsyncCaller(const AsyncCaller&) = delete;
  AsyncCaller& operator=(const AsyncCaller&) = delete;

  // False where most_in_flight requests are, or the caller is being destroyed: nothing was sent
  // then. Any thread.
  bool Send(const PreparedRequest& request, uint64_t tag);

  // Ends every call in flight with CANCELLED. Any thread.
  void CancelAll();

 private:
  struct Impl;
  explicit AsyncCaller(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_ASYNC_CALLER_H_
