// A service of gRPC whose methods are given by name at run time, all of them raw: messages come and go as bytes, on
// completion queues. A method that was not added is one that gRPC answers UNIMPLEMENTED, without reading its message.
#ifndef CELLBATCH_SERVER_GRPC_RAW_SERVICE_H_
#define CELLBATCH_SERVER_GRPC_RAW_SERVICE_H_

#include <cstdint>
#include <deque>
#include <string>

#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/support/async_stream.h"
#include "grpcpp/support/async_unary_call.h"

namespace cellbatch {

enum class Streams : uint8_t { kNone, kAnswers, kBoth };

class RawService final : public grpc::Service {
 public:
  // `name`: "/package.Service/Method". Before the service is registered; the method's number.
  int Add(const std::string& name, Streams streams) {
    using grpc::internal::RpcMethod;
    const RpcMethod::RpcType type = streams == Streams::kNone      ? RpcMethod::NORMAL_RPC
                                    : streams == Streams::kAnswers ? RpcMethod::SERVER_STREAMING
                                                                   : RpcMethod::BIDI_STREAMING;
    AddMethod(
        new grpc::internal::RpcServiceMethod(names_.emplace_back(name).c_str(), type, nullptr));
    const int method = static_cast<int>(names_.size()) - 1;
    MarkMethodRaw(method);
    return method;
  }

  // The next call of that method; `tag` comes when it is there with its message.
  void RequestUnary(int method, grpc::ServerContext* context, grpc::ByteBuffer* message,
                    grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>* writer,
                    grpc::ServerCompletionQueue* queue, void* tag) {
    RequestAsyncUnary(method, context, message, writer, queue, queue, tag);
  }
  void RequestStreaming(int method, grpc::ServerContext* context, grpc::ByteBuffer* message,
                        grpc::ServerAsyncWriter<grpc::ByteBuffer>* writer,
                        grpc::ServerCompletionQueue* queue, void* tag) {
    RequestAsyncServerStreaming(method, context, message, writer, queue, queue, tag);
  }
  // Of this one `tag` comes before any message.
  void RequestBidi(int method, grpc::ServerContext* context,
                   grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>* stream,
                   grpc::ServerCompletionQueue* queue, void* tag) {
    RequestAsyncBidiStreaming(method, context, stream, queue, queue, tag);
  }

 private:
  std::deque<std::string> names_;  // gRPC keeps pointers to them
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_RAW_SERVICE_H_
