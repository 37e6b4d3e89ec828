// The server as one object: every part, wired, in the order in which they start and stop. main.cc
// parses flags, makes one and waits.
//
//   transport (gRPC) -> infer service -> scheduler -> devices
//        ^                   |              |
//        +---- responders <--+--------------+      http, metrics: read only
#ifndef CELLBATCH_SERVER_SERVER_H_
#define CELLBATCH_SERVER_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cells/device/open_devices.h"
#include "scheduler/clock.h"
#include "scheduler/scheduler.h"
#include "server/control/log_control.h"
#include "server/control/model_control.h"
#include "server/explain/explain_page.h"
#include "server/grpc/grpc_transport.h"
#include "server/http/http_server.h"
#include "server/http/metrics_exporter.h"
#include "server/http/server_site.h"
#include "server/http/status/status_page.h"
#include "server/http/status/status_sampler.h"
#include "server/kserve/infer_call.h"
#include "server/kserve/kserve_service.h"
#include "server/lifecycle.h"
#include "server/memory_keeper.h"
#include "server/options.h"
#include "server/policy/policy_watch.h"
#include "server/record/record_writer.h"
#include "server/repository/model_repository.h"
#include "server/requests/admission.h"
#include "server/requests/last_errors.h"
#include "server/requests/request_stats.h"
#include "server/requests/responder.h"
#include "server/typed/latency_service.h"
#include "server/typed/typed_service.h"
#include "server/wire/refusal_counts.h"

namespace cellbatch {

// What the flags say to the scheduler.
SchedulerOptions OfScheduler(const ServerOptions& options);

class Server {
 public:
  // Listens on every port (not ready, models unavailable). `lifecycle` outlives it.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       OpenedDevices devices, Lifecycle& lifecycle);
  ~Server();

  // Loads and warms the models that are to be there at the start. The error has one line a problem.
  absl::Status LoadModels();
  // Waits for a stop, then drains and closes everything. True: every accepted request was answered
  // before the drain timeout.
  bool RunUntilStopped();
  // Looks whether policies changed beside served models, soon. Any thread.
  void LookForPolicies() { policies_->Ask(); }

  std::string ReadyLine() const;  // {"ready":true,"grpc":"…","http":"…","metrics":"…"}
  std::vector<IndexEntry> Index() const;

 private:
  Server(const ServerOptions& options, Lifecycle& lifecycle);
  absl::Status Open(OpenedDevices devices);
  void OpenPages(const FindModel& find);
  void ShowLimits();
  absl::Status OpenHttp();
  void OpenControl();
  void TakeChangedPolicies() const;
  std::vector<std::shared_ptr<const Model>> Served() const;

  const ServerOptions options_;
  LogControl log_{options_.log_control};
  Lifecycle& lifecycle_;
  const SteadyClock clock_;
  Admission admission_;
  StatsRegistry stats_;
  RefusalCounts refusals_;
  LastErrors last_errors_;
  std::unique_ptr<RecordWriter> record_;  // null: nothing is recorded
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<ModelRepository> repository_;
  std::unique_ptr<RequestPath> path_;
  std::unique_ptr<InferService> infer_;
  std::unique_ptr<TypedInferService> typed_infer_;
  std::unique_ptr<DecodeService> decode_;
  std::unique_ptr<KServeService> kserve_;
  std::unique_ptr<LatencyService> latency_;
  std::unique_ptr<MetricsExporter> metrics_;
  std::unique_ptr<StatusSampler> sampler_;
  std::unique_ptr<StatusPage> status_;
  std::unique_ptr<ExplainPage> explain_;
  std::unique_ptr<Responder> responder_;
  std::unique_ptr<GrpcTransport> grpc_;
  std::unique_ptr<HttpInferService> http_infer_;
  std::unique_ptr<ServerSite> site_;
  HttpCounts http_counts_, metrics_counts_;
  std::unique_ptr<HttpServer> http_, metrics_http_;
  std::unique_ptr<PolicyWatch> policies_;
  std::unique_ptr<ModelControl> control_;
  MemoryKeeper memory_keeper_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_SERVER_H_
