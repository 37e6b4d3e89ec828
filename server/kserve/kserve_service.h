// Every call of the KServe v2 protocol but ModelInfer, as plain functions from message to message.
// What is not here (shared memory) gRPC answers UNIMPLEMENTED.
// Any thread; allocates; meant for people and tools, not for the hot path.
#ifndef CELLBATCH_SERVER_KSERVE_KSERVE_SERVICE_H_
#define CELLBATCH_SERVER_KSERVE_KSERVE_SERVICE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/grpc_service.pb.h"
#include "scheduler/scheduler.h"
#include "server/lifecycle.h"
#include "server/requests/access.h"
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
inline constexpr std::string_view kReady = "READY";  // an entry's state: that version answers

// What a client may ask to become of a model, and what is to be called with what became of it, once, from any thread.
enum class ModelChange : uint8_t { kLoad, kUnload };
using ModelChangeDone = std::function<void(const absl::Status&)>;
using ChangeModel = std::function<void(ModelChange what, std::string name, ModelChangeDone done)>;
// LogControl::Settings.
using LogSettingsFunction = std::function<absl::StatusOr<inference::LogSettingsResponse>(
    const inference::LogSettingsRequest&)>;
// TraceControl::Settings.
using TraceSettingsFunction = std::function<absl::StatusOr<inference::TraceSettingResponse>(
    const inference::TraceSettingRequest&)>;

class KServeService {
 public:
  // What it is given outlives it.
  KServeService(FindModel find, std::function<std::vector<IndexEntry>()> index,
                const Scheduler& scheduler, const StatsRegistry& stats, const Lifecycle& lifecycle);

  // Before the first call: who makes the changes that clients ask for. Without: UNIMPLEMENTED.
  void ServeChanges(ChangeModel change) { change_ = std::move(change); }
  // Likewise: who knows what is logged.
  void ServeLogSettings(LogSettingsFunction settings) { log_settings_ = std::move(settings); }

  // Likewise: who knows what is traced.
  void ServeTraceSettings(TraceSettingsFunction settings) { trace_settings_ = std::move(settings); }
  // Likewise: states are kept between requests, for so long. Without: no tool is told of any.
  void KeepSequences(std::chrono::nanoseconds idle) { sequence_idle_ = idle; }

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
  // Without a version of all that answer, without a name of all models. Errors are those of the name and version asked for.
  absl::StatusOr<inference::ModelStatisticsResponse> ModelStatistics(
      const inference::ModelStatisticsRequest& request) const;
  // Of the models that who asks may ask of; null: of all.
  inference::RepositoryIndexResponse RepositoryIndex(
      const inference::RepositoryIndexRequest& request, const Access* by = nullptr) const;
  absl::StatusOr<inference::LogSettingsResponse> LogSettings(
      const inference::LogSettingsRequest& request) const;
  // NOT_FOUND, UNAVAILABLE: of a model that there is not.
  absl::StatusOr<inference::TraceSettingResponse> TraceSetting(
      const inference::TraceSettingRequest& request) const;
  // `done` is called with OK and nothing when the change is made, seconds later, on another thread; or with why not, maybe
  // at once. INVALID_ARGUMENT: another repository than the one there is, or parameters that are not taken: a load's
  // (Triton's `config`, `file:...`: models are what their folders say) and an unload's but `unload_dependents`, which has
  // none here.
  void RepositoryModelLoad(const inference::RepositoryModelLoadRequest& request,
                           ModelChangeDone done) const;
  void RepositoryModelUnload(const inference::RepositoryModelUnloadRequest& request,
                             ModelChangeDone done) const;

 private:
  bool AnyDeviceLeft(const Model& model) const;
  absl::StatusOr<std::shared_ptr<const Model>> Find(const std::string& name,
                                                    const std::string& version) const;
  void AddStatistics(const Model& model, inference::ModelStatisticsResponse& response) const;

  const FindModel find_;
  const std::function<std::vector<IndexEntry>()> index_;
  const Scheduler& scheduler_;
  const StatsRegistry& stats_;
  const Lifecycle& lifecycle_;
  ChangeModel change_;
  LogSettingsFunction log_settings_;
  TraceSettingsFunction trace_settings_;
  std::optional<std::chrono::nanoseconds> sequence_idle_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_KSERVE_KSERVE_SERVICE_H_
