#include "server/server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "cells/device/cpu/process_limits.h"
#include "fmt/format.h"
#include "server/calibration/calibration_text.h"
#include "server/control/log_lines.h"
#include "server/explain/explain_model.h"
#include "server/http/descriptors.h"
#include "server/part_options.h"
#include "spdlog/spdlog.h"

namespace cellbatch {

namespace {

// A line of the log for each of its lines.
void LogLines(spdlog::level::level_enum level, const std::string& text) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (const std::string& line : lines) spdlog::log(level, "{}", line);
}

void LogNews(bool problem, const std::string& text) {
  LogLines(problem ? spdlog::level::err : spdlog::level::info, text);
}

}  // namespace

Server::Server(const ServerOptions& options, Lifecycle& lifecycle)
    : options_(options),
      lifecycle_(lifecycle),
      failures_(
          options.log_failed_requests, LogFormatNamed(options.log_format),
          [](const std::string& line) { WriteLine(spdlog::level::warn, line); }, clock_),
      log_(options.log_control, LogFormatNamed(options.log_format), failures_),
      admission_({.max_requests = options.max_queued_requests,
                  .max_cells = options.max_queued_cells,
                  .max_bytes = options.max_queued_bytes,
                  .client_share_percent = options.client_share_percent,
                  .model_share_percent = options.model_share_percent,
                  .clients = options.clients}),
      stats_(RequestPath::Shards(TransportThreads(options),
                                 static_cast<int>(options.responder_threads)),
             options.ended_versions),
      sequences_(OfSequences(options)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      OpenedDevices devices, Lifecycle& lifecycle) {
  std::unique_ptr<Server> server(new Server(options, lifecycle));
  absl::Status status = server->Open(std::move(devices));
  if (!status.ok()) return status;
  return server;
}

absl::Status Server::Open(OpenedDevices devices) {
  RaiseDescriptorLimit();
  if (absl::Status status = OpenTracing(); !status.ok()) return status;
  SchedulerOptions of_scheduler = OfScheduler(options_);
  if (!options_.calibration_cache.empty()) {
    auto folder = CalibrationFolder::Open(options_.calibration_cache, ProgramStamp());
    if (!folder.ok()) return folder.status();
    calibration_ = *std::move(folder);
    of_scheduler.calibration_shelf = calibration_.get();
  }
  if (!options_.record.empty()) {
    auto record = RecordWriter::Open(options_.record, options_.record_limit);
    if (!record.ok()) return record.status();
    of_scheduler.recorder = (record_ = *std::move(record)).get();
    spdlog::info("recording to {}, {} bytes at most", options_.record, options_.record_limit);
  }
  of_scheduler.unload_limit = absl::ZeroDuration();  // the repository has waited for its requests
  of_scheduler.lane_ended = [this](const LaneStats& lane) { stats_.LaneEnded(lane); };
  const LoaderLimits limits{.unfolder_libraries = options_.unfolder_libraries,
                            .devices = devices.kinds(),
                            .splits_fp32 = devices.splits_fp32};
  const std::vector<const Memory*> memories = MemoriesIn(devices.set);  // the scheduler's
  auto scheduler = Scheduler::Create(of_scheduler, std::move(devices.set), clock_);
  if (!scheduler.ok()) return scheduler.status();
  scheduler_ = *std::move(scheduler);
  const auto gone = [this](ModelId id) {
    sequences_.Gone(id);
    stats_.Gone(id);
  };
  const auto warn = [](const std::string& text) { LogLines(spdlog::level::warn, text); };
  repository_ = std::make_unique<ModelRepository>(
      options_.model_repository, limits, *scheduler_,
      RepositoryOptions{options_.max_models, options_.unload_limit, gone, warn});
  policies_ =
      std::make_unique<PolicyWatch>(options_.policy_poll, [this] { TakeChangedPolicies(); });
  const FindModel find = [this](std::string_view name, std::string_view version) {
    return repository_->Find(name, version);
  };
  const auto index = [this] { return Index(); };
  path_ = std::make_unique<RequestPath>(
      PathOptions{.transport_threads = TransportThreads(options_),
                  .responders = static_cast<int>(options_.responder_threads),
                  .latency_samples = options_.latency_samples,
                  .max_answer_bytes = options_.max_answer_bytes,
                  .deadline_admission = options_.deadline_admission,
                  .last_errors = &last_errors_,
                  .sequences = options_.max_sequences > 0 ? &sequences_ : nullptr},
      find, *scheduler_, admission_, stats_, clock_);
  OpenInference();
  kserve_ = std::make_unique<KServeService>(find, index, *scheduler_, stats_, lifecycle_);
  if (path_->sequences() != nullptr) kserve_->KeepSequences(options_.sequence_idle);
  OpenControl();
  latency_ = std::make_unique<LatencyService>(
      *path_,
      [this] {
        std::vector<TimedModel> models;
        for (const auto& model : Served()) {
          const ModelId id = path_->StatsOf(*model).times_id();
          models.push_back({id, model->name, std::to_string(model->version)});
        }
        return models;
      },
      clock_);
  OpenPages(find);
  explain_ = std::make_unique<ExplainPage>(*scheduler_, memories, find);
  responder_ = std::make_unique<Responder>(*scheduler_, *path_);
  return OpenPorts();
}

absl::Status Server::OpenPorts() {
  absl::Status status = OpenTokens();
  if (status.ok()) status = OpenTls();
  if (!status.ok()) return status;
  GrpcOptions of_grpc = OfGrpc(options_);
  of_grpc.tokens = tokens_.get();
  auto grpc = GrpcTransport::Start(of_grpc,
                                   {.model_infer = infer_.get(),
                                    .infer = typed_infer_.get(),
                                    .decode = decode_.get(),
                                    .stream_infer = stream_infer_.get()},
                                   *kserve_, *latency_, refusals_, clock_);
  if (!grpc.ok()) return grpc.status();
  grpc_ = *std::move(grpc);
  lifecycle_.AddListener([this](bool ready) { grpc_->SetServing(ready); });
  status = OpenHttp();
  if (status.ok() && tls_ != nullptr) tls_->Begin();
  if (tls_ == nullptr && tokens_ == nullptr) return status;
  const auto look = [this] {
    if (tls_ != nullptr) tls_->Look();
    if (tokens_ != nullptr) tokens_->Look();
  };
  reloads_ = std::make_unique<PolicyWatch>(options_.reload_poll, look, "cb-reloads");
  return status;
}

absl::Status Server::OpenTokens() {
  if (options_.tokens.empty()) return absl::OkStatus();
  auto tokens = TokenTable::Open(options_.tokens);
  if (!tokens.ok()) return tokens.status();
  tokens_ = *std::move(tokens);
  metrics_->Watch(*tokens_);
  return absl::OkStatus();
}

// Its ports, before the servers behind them.
absl::Status Server::OpenTls() {
  if (options_.tls_certificate.empty()) return absl::OkStatus();
  auto tls = TlsFront::Open({.files = {.certificate = options_.tls_certificate,
                                       .key = options_.tls_key,
                                       .client_ca = options_.tls_client_ca},
                             .handshake_timeout = options_.tls_handshake_timeout,
                             .max_handshakes = options_.tls_max_handshakes,
                             .threads = TlsThreads(options_),
                             .user_timeout = options_.grpc_keepalive_timeout},
                            tls_counts_);
  if (!tls.ok()) return tls.status();
  tls_ = *std::move(tls);
  const auto listen = [&](const char* flag, std::string& address, const char* protocol,
                          TakePlainEnd take) {
    auto in_use = tls_->Listen(flag, address, protocol, std::move(take));
    if (in_use.ok()) address = *std::move(in_use);
    return in_use.status();
  };
  absl::Status status = listen("grpc-address", options_.grpc_address, "h2",
                               [this](PlainEnd end) { grpc_->Take(std::move(end)); });
  if (status.ok()) {
    status = listen("http-address", options_.http_address, "http/1.1",
                    [this](PlainEnd end) { http_->Take(std::move(end)); });
  }
  if (status.ok() && options_.tls_metrics) {
    status = listen("metrics-address", options_.metrics_address, "http/1.1",
                    [this](PlainEnd end) { metrics_http_->Take(std::move(end)); });
  }
  metrics_->Watch(tls_counts_);
  return status;
}

void Server::OpenInference() {
  path_->LogFailures(failures_);
  if (tracer_ != nullptr) path_->Trace(*tracer_);
  const WireLimits limits = OfMessages(options_);
  infer_ = std::make_unique<InferService>(*path_, limits, &refusals_);
  stream_infer_ = std::make_unique<StreamInferService>(*path_, limits, &refusals_);
  typed_infer_ = std::make_unique<TypedInferService>(*path_, limits, &refusals_);
  decode_ = std::make_unique<DecodeService>(*path_, limits, &refusals_);
}

// What people and scrapers look at.
void Server::OpenPages(const FindModel& find) {
  metrics_ = std::make_unique<MetricsExporter>(
      *scheduler_, stats_, admission_, lifecycle_, [this] { return Served(); },
      options_.nv_metrics);
  status_ = std::make_unique<StatusPage>(
      *scheduler_, *path_, stats_, admission_, lifecycle_, [this] { return Index(); }, find,
      clock_);
  sampler_ = std::make_unique<StatusSampler>(
      *scheduler_, *path_, stats_, admission_, [this] { return Served(); }, clock_);
  status_->Watch(sampler_->history(), last_errors_);
  sampler_->Start();
  ShowLimits();
}

void Server::OpenControl() {
  static_assert(kMostModels == 256, "as --max-models says");
  control_ = std::make_unique<ModelControl>(
      ControlOptions{.mode = *ModelControlNamed(options_.model_control),
                     .root = options_.model_repository,
                     .load_models = options_.load_models,
                     .poll = options_.repository_poll,
                     .max_changes = options_.max_model_changes},
      *repository_, LogNews);
  kserve_->ServeChanges([this](ModelChange what, std::string name, ModelChangeDone done) {
    control_->Change(what, std::move(name), std::move(done));
  });
  kserve_->ServeLogSettings(
      [this](const inference::LogSettingsRequest& request) { return log_.Settings(request); });
  kserve_->ServeTraceSettings([this](const inference::TraceSettingRequest& request) {
    return tracing_->Settings(request);
  });
}

absl::Status Server::OpenTracing() {
  if (!options_.trace_otlp.empty()) {
    auto exporter =
        OtlpExporter::Open({.url = options_.trace_otlp,
                            .max_spans = options_.trace_max_spans,
                            .resource = {{"service.name", std::string(kServerName)},
                                         {"service.version", std::string(kServerVersion)}}});
    if (!exporter.ok()) return exporter.status();
    exporter_ = *std::move(exporter);
    tracer_ = std::make_unique<Tracer>(TraceRules{.rate = options_.trace_rate}, *exporter_);
  }
  tracing_ =
      std::make_unique<TraceControl>(options_.trace_control, options_.trace_otlp, tracer_.get());
  return absl::OkStatus();
}

// What was found, then what every flag became of it.
void Server::ShowLimits() {
  ServerOptions in_force = options_;
  const bool relayed = !options_.tls_certificate.empty();
  in_force.grpc_max_connections = MostGrpcConnections(options_.grpc_max_connections, relayed);
  in_force.http_max_connections = MostHttpConnections(options_.http_max_connections, relayed);
  in_force.grpc_threads = GrpcThreads(options_);
  in_force.http_threads = HttpThreads(options_);
  in_force.tls_threads = TlsThreads(options_);
  in_force.max_tasks_in_flight = scheduler_->max_tasks_in_flight();
  const auto allowed = static_cast<int>(AllowedCpus().size());
  const double quota = CpuQuota().value_or(allowed);
  std::vector<std::pair<std::string, double>> limits = {
      {"cpus_allowed", allowed},
      {"cpu_quota", quota},
      {"cpus_used", CoresWithin(allowed, quota)},
      {"memory_available_bytes", static_cast<double>(AvailableMemoryBytes().value_or(0))}};
  for (Limit& limit : LimitsOf(in_force)) limits.emplace_back(std::move(limit.name), limit.value);
  metrics_->ShowLimits(limits);
  status_->ShowLimits(std::move(limits));
}

absl::Status Server::OpenHttp() {
  metrics_->Watch(grpc_->counts());
  metrics_->Watch(refusals_);
  metrics_->Watch(failures_);
  metrics_->Watch(sequences_);
  if (exporter_ != nullptr) metrics_->Watch(*exporter_);
  metrics_->Watch("http", http_counts_);
  metrics_->Watch("metrics", metrics_counts_);
  http_infer_ = std::make_unique<HttpInferService>(*path_, GrpcShards(options_),
                                                   OfMessages(options_), &refusals_);
  site_ = std::make_unique<ServerSite>(*status_, *metrics_, *explain_, *kserve_, *http_infer_);
  if (tokens_ != nullptr) {
    http_infer_->ServeTokens(*tokens_);
    site_->ServeTokens(*tokens_);
  }
  auto http = StartHttp("http-address", options_.http_address, tls_ != nullptr,
                        HttpThreads(options_), site_->All(), http_counts_);
  if (!http.ok()) return http.status();
  http_ = *std::move(http);
  auto metrics = StartHttp("metrics-address", options_.metrics_address, options_.tls_metrics, 0,
                           site_->MetricsAlone(), metrics_counts_);
  if (!metrics.ok()) return metrics.status();
  metrics_http_ = *std::move(metrics);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<HttpServer>> Server::StartHttp(const char* flag,
                                                              const std::string& address, bool tls,
                                                              int threads, HttpSite site,
                                                              HttpCounts& counts) const {
  const HttpLimits limits = OfHttp(options_, threads);
  return tls ? HttpServer::StartBehind(flag, address, limits, std::move(site), counts)
             : HttpServer::Start(flag, address, limits, std::move(site), counts);
}

absl::Status Server::LoadModels() {
  spdlog::info("loading the models of {}", options_.model_repository);
  absl::Status status = control_->LoadAtStart();
  if (absl::IsUnavailable(status)) return status;
  const bool enough = control_->may_be_empty() || !Served().empty();
  const bool goes_on = status.ok() || (!options_.strict_readiness && enough);
  bool says_why = status.ok() || !goes_on;  // else whoever ends the start does
  for (const IndexEntry& entry : Index()) {
    if (entry.state == "READY") {
      const auto model = repository_->Find(entry.name, entry.version);
      if (!model.ok()) continue;  // unloaded meanwhile
      spdlog::info("model {} version {} is warm on {}{}", entry.name, entry.version,
                   NamesOf(DevicesOf((*model)->devices, scheduler_->stats().Devices())),
                   WhereTimesComeFrom(scheduler_->Calibration((*model)->id)));
    } else if (goes_on && entry.reason != kNotLoaded) {
      says_why = true;
      const std::vector<std::string> problems = absl::StrSplit(entry.reason, '\n');
      for (const std::string& problem : problems) {
        spdlog::warn("model {}: {} {}", entry.name, entry.state, problem);
      }
    }
  }
  // What is no model's: the repository cannot be read.
  if (!says_why) LogLines(spdlog::level::warn, std::string(status.message()));
  return goes_on ? absl::OkStatus() : status;
}

void Server::TakeChangedPolicies() const {
  for (const ModelRepository::PolicyNews& news : repository_->TakeChangedPolicies()) {
    LogNews(!news.taken, news.text);
  }
}

std::string Server::ReadyLine() const {
  return fmt::format(R"({{"ready":true,"grpc":"{}","http":"{}","metrics":"{}"}})", grpc_->address(),
                     http_->address(), metrics_http_->address());
}

std::vector<IndexEntry> Server::Index() const {
  control_->LookForFolders();
  std::vector<IndexEntry> index;
  for (const ModelState& state : repository_->Index()) {
    // One that answers while its next version is loaded is as ready as before.
    const bool answers = state.model != nullptr && state.phase == ModelPhase::kLoading;
    index.push_back({state.name, state.version > 0 ? std::to_string(state.version) : std::string(),
                     Name(answers ? ModelPhase::kReady : state.phase), state.reason});
  }
  return index;
}

std::vector<std::shared_ptr<const Model>> Server::Served() const {
  std::vector<std::shared_ptr<const Model>> served;
  for (ModelState& state : repository_->Index()) {
    if (state.model != nullptr) served.push_back(std::move(state.model));
  }
  return served;
}

}  // namespace cellbatch
