// The methods that are served over gRPC, in one table: who answers each, on which queue it comes in, and how large its
// message may be. KServe v2 and cellbatch.v1.
//
//   on the thread that polls   ModelInfer, ModelStreamInfer, Infer, Decode of messages up to 256 KiB; probes (ServerLive, ServerReady,
//                              ModelReady, health): microseconds each
//                              (probes need no token)
//   slow, on the slow lane     larger messages and compressed ones, of these three; metadata, configuration, statistics,
//                              Latency, reflection; loads and unloads are only handed on there, and answered from elsewhere
//
// So neither a message of the largest size nor a sort of all latencies makes a probe wait (slow_lane.h), however the
// probe is written: its message is bounded by --grpc-max-query-bytes, inflated or not.
#ifndef CELLBATCH_SERVER_GRPC_GRPC_METHODS_H_
#define CELLBATCH_SERVER_GRPC_GRPC_METHODS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "server/grpc/health.h"
#include "server/grpc/raw_service.h"
#include "server/grpc/slow_lane.h"
#include "server/kserve/kserve_service.h"
#include "server/requests/call.h"
#include "server/typed/latency_service.h"
#include "server/wire/refusal_counts.h"
#include "server/wire/wire_limits.h"

namespace cellbatch {

// Who answers what is inferred.
struct CallSinks {
  CallSink* model_infer = nullptr;
  CallSink* infer = nullptr;
  CallSink* decode = nullptr;
  CallSink* stream_infer = nullptr;  // whose every message is a call; null: UNIMPLEMENTED
};

struct MessageBounds {
  WireLimits contents;
  int64_t max_metadata_bytes = 8 << 10;   // of a call
  int64_t max_query_bytes = 64 << 10;     // of a message that asks for no inference
  int64_t max_inflated_bytes = 16 << 20;  // of one that came compressed
  int64_t max_reflection_streams = 16;    // open at once
  int64_t max_health_watches = 4096;
  int64_t max_stream_requests = 128;  // under way on one stream of requests
  SlowLimits slow;
};

struct GrpcMethod {
  RawService* service;
  int number;  // in the service
  CallSink* sink;
  Streams streams = Streams::kNone;
  bool many = false;  // of a stream of questions: they are under way at once (infer_stream.h)
  bool slow = false;
  int accepts;        // calls that may arrive before the queue's thread has run
  int64_t max_bytes;  // of its message; 0: as many as of any
  bool open = false;  // to whoever brings no token
};

class GrpcMethods {
 public:
  // What it is given outlives it.
  GrpcMethods(const CallSinks& sinks, const KServeService& kserve, const LatencyService& latency,
              const MessageBounds& bounds, bool reflection, RefusalCounts& refusals);

  void Register(grpc::ServerBuilder& builder);
  const std::vector<GrpcMethod>& all() const { return methods_; }
  const MessageBounds& bounds() const { return bounds_; }
  RefusalCounts& refusals() const { return refusals_; }
  Health& health() { return *health_; }

 private:
  void AddKServe(const KServeService& kserve);
  void AddLatency(const LatencyService& latency);
  void AddReflection();
  void AddHealth();
  void AddInfer(const google::protobuf::Descriptor& request, const char* name, CallSink* sink,
                Streams streams, int accepts);
  template <typename Request>
  void Answer(const char* name, bool slow,
              std::function<absl::StatusOr<std::string>(const Request&)> function,
              Streams streams = Streams::kNone);
  // One whose answer depends on who asks.
  template <typename Request>
  void AnswerWhom(
      const char* name, bool slow,
      std::function<absl::StatusOr<std::string>(const Request&, const Access*)> function,
      Streams streams = Streams::kNone);
  // One that answers later (KServeService's changes of models), with an empty message.
  template <typename Request, typename Response>
  void Change(const char* name, std::function<void(const Request&, ModelChangeDone)> function);
  void AddAnswering(const google::protobuf::Descriptor& request, const char* name, bool slow,
                    Streams streams);
  // Of the service in the request's file.
  void Add(const google::protobuf::Descriptor& request, const char* name, GrpcMethod method);

  const MessageBounds bounds_;
  RefusalCounts& refusals_;
  std::map<std::string, RawService> services_;  // by full name
  std::unique_ptr<Health> health_;
  std::vector<std::unique_ptr<CallSink>> answering_;
  std::vector<GrpcMethod> methods_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_GRPC_METHODS_H_
