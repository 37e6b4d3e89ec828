// ModelInfer from bytes to answer. Knows no gRPC.
//
//   transport thread                            responder thread
//   Start: admit at the door, parse, find the model, decode,
//          unfold, seal, admit the cells, Submit ----------------> scheduler
//          publish for cancels, arm the deadline                       |
//          let go ---------+                    OnDone: encode, record
//                          |                    let go
//                          v                       v
//                  whoever lets go last disarms, gives the tickets back, finishes the call
//
// So the answer leaves as soon as both are through, and neither touches what the other has freed.
#ifndef CELLBATCH_SERVER_KSERVE_INFER_CALL_H_
#define CELLBATCH_SERVER_KSERVE_INFER_CALL_H_

#include <memory>

#include "absl/status/status.h"
#include "server/requests/call.h"
#include "server/requests/request_path.h"
#include "server/wire/wire_codec.h"

namespace cellbatch {

class InferCall;

class InferService final : public CallSink {
 public:
  // `path` outlives it.
  explicit InferService(RequestPath& path, const WireLimits& limits = {})
      : path_(path), limits_(limits) {}

  void Start(ServerCall& call) override;
  void Cancelled(ServerCall& call) override { path_.Cancel(call); }

 private:
  absl::Status Prepare(InferCall& infer);
  void Submit(std::unique_ptr<InferCall> infer);
  void Refuse(std::unique_ptr<InferCall> infer, const absl::Status& status);

  RequestPath& path_;
  const WireLimits limits_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_KSERVE_INFER_CALL_H_
