// The server as one object: every part, wired, in the order in which they start and stop. main.cc
// parses flags, makes one and waits.
//
//   transport (gRPC) -> infer service -> scheduler -> devices
//        ^                   |              |
//        +---- responders <--+--------------+      http, metrics: read only
#ifndef CELLBATCH_SERVER_SERVER_H_
#define CELLBATCH_SERVER_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cells/device/open_devices.h"
#include "scheduler/clock.h"
#include "scheduler/scheduler.h"
#include "server/calibration/calibration_folder.h"
#include "server/control/log_control.h"
#include "server/control/model_control.h"
#include "server/control/trace_control.h"
#include "server/explain/explain_page.h"
#include "server/grpc/grpc_transport.h"
#include "server/http/http_server.h"
#include "server/http/metrics_exporter.h"
#include "server/http/otlp/otlp_exporter.h"
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
#include "server/requests/sequences.h"
#include "server/tls/tls_front.h"
#include "server/tokens/token_table.h"
#include "server/typed/latency_service.h"
#include "server/typed/typed_service.h"
#include "server/wire/refusal_counts.h"

namespace cellbatch {

class Server {
 public:
  // Listens on every port (not ready, models unavailable). `lifecycle` outlives it.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       OpenedDevices devices, Lifecycle& lifecycle);
  ~Server();  // waits until no model is being loaded

  // Loads and warms the models that are to be there at the start; those that are warm answer meanwhile. The error has one line a
  // problem; UNAVAILABLE: it was given up.
  absl::Status LoadModels();
  // LoadModels returns, whatever is being read. After the request to stop. Any thread.
  void GiveUpLoading();
  // Waits for a stop; `meanwhile` is called now and then. False: nobody asked for it, no device is left, as the log says.
  bool WaitForStop(const std::function<void()>& meanwhile);
  // Then: drains and closes everything. True: every accepted request was answered before the drain timeout.
  bool Drain();
  // Whether a load that was given up goes on, for as long as a disk or a library takes. Then the process exits without ~Server,
  // once the rest is closed: records and logs are whole, and traces sent.
  bool loading() const { return control_->loading(); }
  void CloseAllButModels();
  // Looks whether policies changed beside served models, and what --reload-poll is about, soon. Any thread.
  void LookForPolicies() {
    policies_->Ask();
    if (reloads_ != nullptr) reloads_->Ask();
  }

  std::string ReadyLine() const;  // {"ready":true,"grpc":"…","http":"…","metrics":"…"}
  std::vector<IndexEntry> Index() const;

 private:
  Server(const ServerOptions& options, Lifecycle& lifecycle);
  absl::Status Open(OpenedDevices devices);
  void OpenPages(const FindModel& find);
  void ShowLimits();
  absl::Status OpenPorts();
  absl::Status OpenTokens();
  absl::Status OpenTls();
  absl::Status OpenHttp();
  absl::StatusOr<std::unique_ptr<HttpServer>> StartHttp(const char* flag,
                                                        const std::string& address, bool tls,
                                                        int threads, HttpSite site,
                                                        HttpCounts& counts) const;
  void OpenControl();
  void OpenInference();
  absl::Status OpenTracing();
  void TakeChangedPolicies() const;
  std::vector<std::shared_ptr<const Model>> Served() const;
  void EndCallers();

  ServerOptions options_;  // with addresses in use, where they are ports of TLS
  Lifecycle& lifecycle_;
  const SteadyClock clock_;
  FailureLog failures_;
  LogControl log_;
  std::unique_ptr<OtlpExporter> exporter_;  // null, like the next one: nothing is traced
  std::unique_ptr<Tracer> tracer_;
  std::unique_ptr<TraceControl> tracing_;
  Admission admission_;
  StatsRegistry stats_;
  SequenceTable sequences_;
  RefusalCounts refusals_;
  LastErrors last_errors_;
  std::unique_ptr<CalibrationFolder> calibration_;  // null: nothing is kept
  std::unique_ptr<RecordWriter> record_;            // null: nothing is recorded
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<ModelRepository> repository_;
  std::unique_ptr<RequestPath> path_;
  std::unique_ptr<InferService> infer_;
  std::unique_ptr<StreamInferService> stream_infer_;
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
  std::unique_ptr<TokenTable> tokens_;  // null: none is asked for
  TlsCounts tls_counts_;
  std::unique_ptr<TlsFront> tls_;  // null: no port speaks it
  std::unique_ptr<PolicyWatch> policies_;
  std::unique_ptr<PolicyWatch> reloads_;  // null: nothing is taken again
  std::unique_ptr<ModelControl> control_;
  MemoryKeeper memory_keeper_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_SERVER_H_
