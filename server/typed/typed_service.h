// cellbatch.v1.Cellbatch/Infer and /Decode from bytes to answer. Know no gRPC.
//
//   Infer    one call, many inputs, each a request of its own on the common way (request_path.h):
//
//     transport thread                                 responder thread
//     parse, find; each input: tensors, unfold, seal,  each OnDone: its answer encoded, let go
//     admit (all of them, or none); Submit each
//     let go -------------------+----------------------------+
//                               v
//             whoever lets go last finishes the call, answers in the order of the inputs
//
//     What is wrong with one input is its answer's code. The call fails as a whole where nobody could be
//     answered (malformed, no such model), and where one is cut off from outside: CANCELLED,
//     DEADLINE_EXCEEDED, UNAVAILABLE.
//
//   Decode   one request that streams; each OnWords writes a message for every new word
#ifndef CELLBATCH_SERVER_TYPED_TYPED_SERVICE_H_
#define CELLBATCH_SERVER_TYPED_TYPED_SERVICE_H_

#include <memory>

#include "absl/status/status.h"
#include "server/requests/call.h"
#include "server/requests/request_path.h"
#include "server/typed/typed_codec.h"

namespace cellbatch {

class TypedCall;
class TypedItem;

class TypedInferService final : public CallSink {
 public:
  // `path` outlives it.
  explicit TypedInferService(RequestPath& path, const TypedLimits& limits = {})
      : path_(path), limits_(limits) {}

  void Start(ServerCall& call) override;
  void Cancelled(ServerCall& call) override { path_.Cancel(call); }

 private:
  absl::Status Prepare(TypedCall& typed);
  absl::Status PrepareInputs(TypedCall& typed);
  bool AdmitAnother(const TypedItem& item, TypedCall& typed);
  absl::Status CheckTime(TypedCall& typed);
  void Submit(std::unique_ptr<TypedCall> typed);

  RequestPath& path_;
  const TypedLimits limits_;
};

class DecodeCall;

class DecodeService final : public CallSink {
 public:
  // `path` outlives it.
  explicit DecodeService(RequestPath& path, const TypedLimits& limits = {})
      : path_(path), limits_(limits) {}

  void Start(ServerCall& call) override;
  void Cancelled(ServerCall& call) override { path_.Cancel(call); }

 private:
  absl::Status Prepare(DecodeCall& decode);

  RequestPath& path_;
  const TypedLimits limits_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_TYPED_TYPED_SERVICE_H_
