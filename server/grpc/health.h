// Whether the server serves, as grpc.health.v1 asks it: Check says it once, Watch at every change. Ours, because the library's
// polls connections with threads of its own, who take turns with ours: 3 us and half a wake-up a request (benchmark `rpc`).
//
//   Set(true) ----> every watch: its new state, if it is another          Watch --> the state now; the next ones; until
//                                                                          the client goes, or Stop
//
// Knows no gRPC. Any thread; a lock.
#ifndef CELLBATCH_SERVER_GRPC_HEALTH_H_
#define CELLBATCH_SERVER_GRPC_HEALTH_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/health.pb.h"
#include "server/requests/call.h"
#include "server/wire/message_scanner.h"
#include "server/wire/refusal_counts.h"
#include "server/wire/wire_limits.h"

namespace cellbatch {

// The sink of Watch.
class Health final : public CallSink {
 public:
  // `services`: full names; the empty one, the server itself, is known besides. `counts` outlives it.
  Health(std::vector<std::string> services, int64_t max_watches, const WireLimits& limits,
         RefusalCounts* counts);

  void Set(bool serving);  // all services
  // NOT_FOUND: no service of that name.
  absl::StatusOr<grpc::health::v1::HealthCheckResponse> Check(
      const grpc::health::v1::HealthCheckRequest& request) const;

  // A service that is not known is SERVICE_UNKNOWN for as long as it is watched. RESOURCE_EXHAUSTED beyond the watches.
  void Start(ServerCall& call) override;
  void Cancelled(ServerCall& call) override;
  // Every watch ends, UNAVAILABLE; and so does whoever comes later.
  void Stop();

 private:
  using State = grpc::health::v1::HealthCheckResponse::ServingStatus;
  State StateOf(const std::string& service) const;  // with the lock

  const std::vector<std::string> services_;
  const int64_t max_watches_;
  const MessageScanner scanner_;
  RefusalCounts* const counts_;
  mutable std::mutex mutex_;
  bool serving_ = false;
  bool stopped_ = false;
  std::map<ServerCall*, std::string> watches_;  // and the service of each
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_HEALTH_H_
