// What the client's own files share of gRPC: the connection, and one blocking call. Nobody else includes
// this.

#ifndef CELLBATCH_CLIENT_CONNECTION_H_
#define CELLBATCH_CLIENT_CONNECTION_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "proto/cellbatch.grpc.pb.h"
#include "proto/grpc_service.grpc.pb.h"
#include "proto/health.grpc.pb.h"

namespace cellbatch {

struct Call::State {
  grpc::ClientContext context;
};

struct Client::Connection {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<inference::GRPCInferenceService::Stub> kserve;
  std::unique_ptr<cellbatch::v1::Cellbatch::Stub> typed;
  std::unique_ptr<grpc::health::v1::Health::Stub> health;

  std::mutex mutex;
  std::condition_variable idle;
  int calls_in_flight = 0;

  // Around an asynchronous call: the client waits for all of them before it goes.
  void CallBegins() {
    const std::lock_guard lock(mutex);
    ++calls_in_flight;
  }
  // The call's context has to be gone (or somebody else's) by then: it holds the channel, and a channel whose last holder is
  // gRPC's own thread takes down the queue that this thread is about to read: gRPC 1.51 frees it twice.
  void CallEnds() {
    const std::lock_guard lock(mutex);
    if (--calls_in_flight == 0) {
      idle.notify_all();
    }
  }
};

inline absl::Status ToStatus(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

inline void SetDeadline(const CallOptions& options, grpc::ClientContext& context) {
  if (options.timeout.count() > 0) {
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::duration_cast<std::chrono::microseconds>(options.timeout));
  }
}

// One blocking call of a stub's method: the response, or the server's error.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Ask(Stub& stub,
                             grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                          Response*),
                             const Request& request, const CallOptions& options) {
  grpc::ClientContext context;
  SetDeadline(options, context);
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (!status.ok()) {
    return ToStatus(status);
  }
  return response;
}

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_CONNECTION_H_
