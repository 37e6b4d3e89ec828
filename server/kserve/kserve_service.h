// Every call of the KServe v2 protocol but ModelInfer, as plain functions from message to message.
// What is not here (streams, loading by call, tracing, log settings) gRPC answers UNIMPLEMENTED.
// Any thread; allocates; meant for people and tools, not for the hot path.
#ifndef CELLBATCH_SERVER_KSERVE_KSERVE_SERVICE_H_
#define CELLBATCH_SERVER_KSERVE_KSERVE_SERVICE_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/grpc_service.pb.h"
#include "scheduler/scheduler.h"
#include "server/lifecycle.h"
#include "server/requests/request_path.h"
#include "server/requests/request_stats.h"

namespace cellbatch {

inline constexpr std::string_view kServerName = "cellbatch";
inline constexpr std::string_view kServerVersion = "0.1.0";

// A line of the repository's index, in KServe's words.
struct IndexEntry {
  std::string name;
  std::string version;  // decimal; empty: none
  std::string state;    // READY, LOADING, UNLOADING, UNAVAILABLE
  std::string reason;
};

class KServeService {
 public:
  // What it is given outlives it.
  KServeService(FindModel find, std::function<std::vector<IndexEntry>()> index,
                const Scheduler& scheduler, const StatsRegistry& stats, const Lifecycle& lifecycle);

  inference::ServerLiveResponse ServerLive() const;
  inference::ServerReadyResponse ServerReady() const;
  inference::ServerMetadataResponse ServerMetadata() const;
  // NOT_FOUND for an unknown model; a known one that is not ready answers false.
  absl::StatusOr<inference::ModelReadyResponse> ModelReady(
      const inference::ModelReadyRequest& request) const;
  absl::StatusOr<inference::ModelMetadataResponse> ModelMetadata(
      const inference::ModelMetadataRequest& request) const;
  absl::StatusOr<inference::ModelConfigResponse> ModelConfig(
      const inference::ModelConfigRequest& request) const;
  absl::StatusOr<inference::ModelStatisticsResponse> ModelStatistics(
      const inference::ModelStatisticsRequest& request) const;
  inference::RepositoryIndexResponse RepositoryIndex(
      const inference::RepositoryIndexRequest& request) const;

 private:
  absl::StatusOr<std::shared_ptr<const Model>> Find(const std::string& name,
                                                    const std::string& version) const;
  void AddStatistics(const Model& model, inference::ModelStatisticsResponse& response) const;

  const FindModel find_;
  const std::function<std::vector<IndexEntry>()> index_;
  const Scheduler& scheduler_;
  const StatsRegistry& stats_;
  const Lifecycle& lifecycle_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_KSERVE_KSERVE_SERVICE_H_
