// A ModelInfer of its own thread, that can be cancelled; what is under way is when it goes.
#ifndef CELLBATCH_TESTS_FAULT_BACKGROUND_CALL_H_
#define CELLBATCH_TESTS_FAULT_BACKGROUND_CALL_H_

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "tests/fault/grpc_caller.h"

namespace cellbatch {

class BackgroundCall {
 public:
  using Time = std::chrono::system_clock::time_point;
  // `tenant`: as who it asks; empty: nobody in particular.
  BackgroundCall(GrpcCaller& caller, inference::ModelInferRequest request,
                 Time deadline = Time::max(), const std::string& tenant = "")
      : request_(std::move(request)) {
    if (deadline != Time::max()) context_.set_deadline(deadline);
    if (!tenant.empty()) context_.AddMetadata("x-cellbatch-tenant", tenant);
    thread_ = std::thread([this, &caller] {
      status_ = caller.stub().ModelInfer(&context_, request_, &answer_);
      done_ = true;
    });
  }
  ~BackgroundCall() {
    context_.TryCancel();
    if (thread_.joinable()) thread_.join();
  }
  void Cancel() { context_.TryCancel(); }
  bool done() const { return done_; }
  const grpc::Status& Wait() {
    if (thread_.joinable()) thread_.join();
    return status_;
  }

 private:
  grpc::ClientContext context_;
  inference::ModelInferRequest request_;
  inference::ModelInferResponse answer_;
  grpc::Status status_;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_FAULT_BACKGROUND_CALL_H_
