// Calls of any bytes on any method, as a client that means harm would make them.
#ifndef CELLBATCH_TESTS_FAULT_GRPC_CALLER_H_
#define CELLBATCH_TESTS_FAULT_GRPC_CALLER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "proto/grpc_service.grpc.pb.h"

namespace cellbatch {

inline constexpr const char* kInferMethod = "/inference.GRPCInferenceService/ModelInfer";

struct RawAnswer {
  grpc::Status status;
  std::string body;
};

class GrpcCaller {
 public:
  explicit GrpcCaller(const std::string& address,
                      const std::shared_ptr<grpc::ChannelCredentials>& credentials =
                          grpc::InsecureChannelCredentials())
      : channel_(grpc::CreateCustomChannel(address, credentials, Arguments())),
        generic_(channel_),
        stub_(inference::GRPCInferenceService::NewStub(channel_)) {}

  // `messages` on one call (a unary one has one), then half-close.
  RawAnswer Raw(const std::string& method, const std::vector<std::string>& messages,
                const std::function<void(grpc::ClientContext&)>& prepare = nullptr) {
    grpc::ClientContext context;
    if (prepare) prepare(context);
    grpc::CompletionQueue done;
    auto call = generic_.PrepareCall(&context, method, &done);
    call->StartCall(Tag());
    bool ok = Next(done);
    for (const std::string& message : messages) {
      if (!ok) break;
      const grpc::Slice slice(message);
      call->Write(grpc::ByteBuffer(&slice, 1), Tag());
      ok = Next(done);
    }
    if (ok) {
      call->WritesDone(Tag());
      Next(done);
    }
    grpc::ByteBuffer answer;
    call->Read(&answer, Tag());
    RawAnswer result;
    if (Next(done)) {
      std::vector<grpc::Slice> slices;
      if (answer.Dump(&slices).ok()) {
        for (const grpc::Slice& slice : slices) {
          result.body.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
        }
      }
    }
    call->Finish(&result.status, Tag());
    Next(done);
    return result;
  }
  RawAnswer RawInfer(const std::string& message,
                     const std::function<void(grpc::ClientContext&)>& prepare = nullptr) {
    return Raw(kInferMethod, {message}, prepare);
  }

  grpc::Status Infer(const inference::ModelInferRequest& request,
                     inference::ModelInferResponse& answer,
                     const std::function<void(grpc::ClientContext&)>& prepare = nullptr) {
    grpc::ClientContext context;
    if (prepare) prepare(context);
    return stub_->ModelInfer(&context, request, &answer);
  }
  inference::GRPCInferenceService::Stub& stub() { return *stub_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  static grpc::ChannelArguments Arguments() {
    grpc::ChannelArguments arguments;
    arguments.SetMaxSendMessageSize(-1);
    arguments.SetMaxReceiveMessageSize(-1);
    // A connection of its own: what one caller does to it, another does not feel.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return arguments;
  }
  static void* Tag() { return reinterpret_cast<void*>(1); }
  static bool Next(grpc::CompletionQueue& done) {
    void* tag = nullptr;
    bool ok = false;
    return done.Next(&tag, &ok) && ok;
  }

  std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub generic_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_FAULT_GRPC_CALLER_H_
