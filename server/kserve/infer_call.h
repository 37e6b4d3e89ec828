// ModelInfer, as a call of the one way (requests/plain_call.h): raw bytes in, raw bytes out. Knows no gRPC.
#ifndef CELLBATCH_SERVER_KSERVE_INFER_CALL_H_
#define CELLBATCH_SERVER_KSERVE_INFER_CALL_H_

#include "server/requests/call.h"
#include "server/requests/request_path.h"
#include "server/wire/wire_scan.h"

namespace cellbatch {

class InferService final : public CallSink {
 public:
  // `path` outlives it.
  explicit InferService(RequestPath& path, const WireLimits& limits = {})
      : path_(path), limits_(limits) {}

  void Start(ServerCall& call) override;
  void Cancelled(ServerCall& call) override { path_.Cancel(call); }

 private:
  RequestPath& path_;
  const WireLimits limits_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_KSERVE_INFER_CALL_H_
