// gRPC behind the seam: our methods as raw bytes on asynchronous completion queues (grpc_calls.h); the library's own
// channelz. Connections are accepted by us (grpc_listener.h) and handed to it.
#ifndef CELLBATCH_SERVER_GRPC_GRPC_TRANSPORT_H_
#define CELLBATCH_SERVER_GRPC_GRPC_TRANSPORT_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "scheduler/clock.h"
#include "server/grpc/connection_guard.h"
#include "server/grpc/frame_watch.h"
#include "server/grpc/grpc_calls.h"
#include "server/kserve/kserve_service.h"
#include "server/tls/plain_end.h"
#include "server/typed/latency_service.h"

namespace cellbatch {

struct GrpcOptions {
  std::string address = "0.0.0.0:8001";
  bool accepts =
      true;  // false: connections are accepted at that address by others, and come by Take
  int64_t max_connections = 4096;
  FrameBounds frames = {};  // of one connection, before calls come of it
  int64_t max_unfinished_bytes = 256 << 20;
  std::chrono::milliseconds message_timeout{60'000};
  // That poll, one completion queue each: the shards [0, threads) of what they record. The next one is the slow lane's.
  int threads = 1;
  MessageBounds messages = {};
  const AccessTable* tokens = nullptr;  // who may call; null: whoever likes. Outlives the transport
  bool channelz = false;
  bool reflection = true;
  int64_t max_message_bytes = 64 << 20;
  int64_t max_metadata_bytes = 8 << 10;
  int64_t stream_buffer_bytes = 1 << 20;  // of one stream that is not read
  std::chrono::milliseconds keepalive_time{7'200'000};
  std::chrono::milliseconds keepalive_timeout{20'000};
  std::chrono::milliseconds min_ping_interval{300'000};  // of clients without calls in flight
  std::chrono::milliseconds max_connection_age{0};       // 0: no limit
  std::chrono::milliseconds max_connection_age_grace{30'000};
};

class GrpcTransport {
 public:
  // Listens and serves from now on; health says NOT_SERVING until SetServing(true). What it is given
  // outlives it. UNAVAILABLE: the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<GrpcTransport>> Start(
      const GrpcOptions& options, const CallSinks& sinks, const KServeService& kserve,
      const LatencyService& latency, RefusalCounts& refusals, const Clock& clock);
  // Shuts down, if that was not done.
  ~GrpcTransport();

  const std::string& address() const;  // host:port in use
  const GrpcCounts& counts() const;    // of its connections
  // False: nobody can connect, for want of files. Any thread.
  bool accepting() const;
  // One that was accepted elsewhere. Any thread; never waits.
  void Take(PlainEnd end);
  void SetServing(bool serving);  // grpc.health.v1, all services; any thread
  // Tells those that are connected to call elsewhere, and serves them until they have heard it: until no call has come for some
  // 20 ms, or for `most`. Who never calls hears nothing. Connections that come later are served.
  void SendClientsAway(std::chrono::milliseconds most);
  // Refuses new connections and calls, waits for the answers of calls under way (the sink gives
  // every one), ends the threads. Calls that come meanwhile are accepted until clients have heard of it, for `grace` at most; those
  // still without an answer after `grace` more are cancelled.
  void Shutdown(std::chrono::milliseconds grace);

 private:
  class Impl;
  explicit GrpcTransport(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_GRPC_TRANSPORT_H_
