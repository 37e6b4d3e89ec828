// ModelInfers that are begun at once, and may be cancelled, from one thread: a crowd.
#ifndef CELLBATCH_TESTS_FAULT_ATTACKS_MANY_CALLS_H_
#define CELLBATCH_TESTS_FAULT_ATTACKS_MANY_CALLS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "tests/fault/grpc_caller.h"

namespace cellbatch {

class ManyCalls {
 public:
  struct Call {
    grpc::ClientContext context;
    inference::ModelInferResponse answer;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<inference::ModelInferResponse>> reader;
  };

  // `tenant`: as who they ask; empty: nobody in particular.
  ManyCalls(GrpcCaller& caller, int calls, const inference::ModelInferRequest& request,
            const std::string& tenant = "") {
    for (int i = 0; i < calls; ++i) {
      Call& call = *calls_.emplace_back(std::make_unique<Call>());
      if (!tenant.empty()) call.context.AddMetadata("x-cellbatch-tenant", tenant);
      call.reader = caller.stub().AsyncModelInfer(&call.context, request, &done_);
      call.reader->Finish(&call.answer, &call.status, &call);
    }
  }
  void Cancel() {
    for (const auto& call : calls_) call->context.TryCancel();
  }
  // All of them, once all have ended.
  const std::vector<std::unique_ptr<Call>>& Ended() {
    void* tag = nullptr;
    for (bool ok = false; finished_ < calls_.size() && done_.Next(&tag, &ok); ++finished_) {
    }
    return calls_;
  }
  // How many ended so, once all have ended.
  int Ended(grpc::StatusCode code) {
    int ended = 0;
    for (const auto& call : Ended()) ended += call->status.error_code() == code ? 1 : 0;
    return ended;
  }

 private:
  grpc::CompletionQueue done_;
  std::vector<std::unique_ptr<Call>> calls_;
  size_t finished_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_FAULT_ATTACKS_MANY_CALLS_H_
