// ModelInfer, and each message of ModelStreamInfer, as a call of the one way (requests/plain_call.h): raw bytes in, raw bytes out. Knows no gRPC.
#ifndef CELLBATCH_SERVER_KSERVE_INFER_CALL_H_
#define CELLBATCH_SERVER_KSERVE_INFER_CALL_H_

#include "server/requests/call.h"
#include "server/requests/request_path.h"
#include "server/wire/message_scanner.h"

namespace cellbatch {

class InferService final : public CallSink {
 public:
  // What it is given outlives it.
  explicit InferService(RequestPath& path, const WireLimits& limits = {},
                        RefusalCounts* counts = nullptr);

  void Start(ServerCall& call) override;
  void Cancelled(ServerCall& call) override { path_.Cancel(call); }

 private:
  RequestPath& path_;
  const MessageScanner scanner_;
};

// A message of ModelStreamInfer: the same, and what goes wrong with it is said in its answer.
class StreamInferService final : public CallSink {
 public:
  // What it is given outlives it.
  explicit StreamInferService(RequestPath& path, const WireLimits& limits = {},
                              RefusalCounts* counts = nullptr);

  void Start(ServerCall& call) override;
  void Cancelled(ServerCall& call) override { path_.Cancel(call); }

 private:
  RequestPath& path_;
  const MessageScanner scanner_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_KSERVE_INFER_CALL_H_
