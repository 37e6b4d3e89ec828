// cellbatch.v1.Cellbatch/Infer and /Decode, as calls of the one way (requests/plain_call.h). Know no gRPC.
//
//   Infer    one call, many inputs, each a request of its own; the answers in the order of the inputs. What is
//            wrong with one input is its answer's code; the call fails as a whole where nobody could be answered
//            (malformed, no such model), and where one is cut off from outside: CANCELLED, DEADLINE_EXCEEDED,
//            UNAVAILABLE
//   Decode   one request that streams; each OnWords writes a message for every new word
#ifndef CELLBATCH_SERVER_TYPED_TYPED_SERVICE_H_
#define CELLBATCH_SERVER_TYPED_TYPED_SERVICE_H_

#include "server/requests/call.h"
#include "server/requests/request_path.h"
#include "server/typed/typed_codec.h"

namespace cellbatch {

class TypedInferService final : public CallSink {
 public:
  // What it is given outlives it.
  explicit TypedInferService(RequestPath& path, const WireLimits& limits = {},
                             RefusalCounts* counts = nullptr);

  void Start(ServerCall& call) override;
  void Cancelled(ServerCall& call) override { path_.Cancel(call); }

 private:
  RequestPath& path_;
  const int64_t max_inputs_;
  const MessageScanner scanner_;
};

class DecodeService final : public CallSink {
 public:
  // What it is given outlives it.
  explicit DecodeService(RequestPath& path, const WireLimits& limits = {},
                         RefusalCounts* counts = nullptr);

  void Start(ServerCall& call) override;
  void Cancelled(ServerCall& call) override { path_.Cancel(call); }

 private:
  RequestPath& path_;
  const MessageScanner scanner_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_TYPED_TYPED_SERVICE_H_
