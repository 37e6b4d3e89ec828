#include "server/http/metrics_exporter.h"

#include <cstdint>
#include <utility>

#include "server/http/metrics_text.h"
#include "server/http/model_metrics.h"
#include "server/http/process_stats.h"
#include "server/kserve/kserve_service.h"

namespace cellbatch {

namespace {

void Devices(const std::vector<DeviceStats>& devices, MetricsText& text) {
  const auto each = [&](const char* name, const char* type, const char* help, auto value) {
    text.Family(name, type, help);
    for (const DeviceStats& device : devices) text.Value({{"device", device.name}}, value(device));
  };
  each("cellbatch_inflight_tasks", "gauge", "Tasks submitted and not done.",
       [](const DeviceStats& d) { return d.tasks_in_flight; });
  each("cellbatch_device_tasks_total", "counter", "Tasks done.",
       [](const DeviceStats& d) { return static_cast<int64_t>(d.tasks); });
  each("cellbatch_device_busy_seconds_total", "counter", "Time spent computing them.",
       [](const DeviceStats& d) { return Seconds(d.busy_ns); });
  each("cellbatch_device_healthy", "gauge", "1, or 0 once the device has failed.",
       [](const DeviceStats& d) { return int64_t{d.healthy}; });
}

void Places(const std::vector<std::shared_ptr<const Model>>& models,
            const std::vector<DeviceStats>& devices, MetricsText& text) {
  text.Family("cellbatch_model_device", "gauge",
              "1: the model lives on that device; 0: on one that has failed.");
  for (const auto& model : models) {
    for (const DeviceStats& device : DevicesOf(model->devices, devices)) {
      text.Value({{"model", model->name},
                  {"version", std::to_string(model->version)},
                  {"device", device.name}},
                 int64_t{device.healthy});
    }
  }
}

void Whole(const Lifecycle& lifecycle, const Admission& admission, MetricsText& text) {
  text.Family("cellbatch_build_info", "gauge", "Always 1.");
  text.Value({{"version", std::string(kServerVersion)}}, int64_t{1});
  text.Family("cellbatch_ready", "gauge",
              "1 while every model is warm and the server is not draining.");
  text.Value({}, int64_t{lifecycle.ready()});
  const Demand in_flight = admission.InFlight();
  text.Family("cellbatch_admitted_requests", "gauge",
              "Requests admitted whose clients do not have their answers yet.");
  text.Value({}, in_flight.requests);
  text.Family("cellbatch_admitted_cells", "gauge", "Their cells (--max-queued-cells).");
  text.Value({}, in_flight.cells);
  text.Family("cellbatch_admitted_bytes", "gauge",
              "Bytes of their messages, rows and answers (--max-queued-bytes).");
  text.Value({}, in_flight.bytes);
}

void Process(MetricsText& text) {
  const ProcessStats process = ReadProcessStats();
  text.Family("process_cpu_seconds_total", "counter", "User and system time.");
  text.Value({}, process.cpu_seconds);
  text.Family("process_resident_memory_bytes", "gauge", "Memory in use.");
  text.Value({}, process.resident_bytes);
  text.Family("process_virtual_memory_bytes", "gauge", "Address space in use.");
  text.Value({}, process.virtual_bytes);
  text.Family("process_open_fds", "gauge", "Open file descriptors.");
  text.Value({}, process.open_fds);
  text.Family("process_max_fds", "gauge", "Their limit.");
  text.Value({}, process.max_fds);
  text.Family("process_start_time_seconds", "gauge", "Start, in seconds since 1970.");
  text.Value({}, process.start_unix_seconds);
}

void Refusals(const RefusalCounts& refusals, MetricsText& text) {
  text.Family("cellbatch_messages_refused_total", "counter",
              "Messages that were refused for what they contain, by the bound.");
  for (size_t i = 0; i < kNumRefused; ++i) {
    const auto reason = static_cast<Refused>(i);
    text.Value({{"reason", Name(reason)}}, refusals.Of(reason));
  }
}

void Failures(const FailureLog& failures, MetricsText& text) {
  text.Family("cellbatch_failed_request_lines_total", "counter",
              "Lines of the log for requests that did not end OK: written, or left out.");
  text.Value({{"what", "written"}}, failures.written());
  text.Value({{"what", "left_out"}}, failures.left_out());
}

void Sequences(const SequenceTable& sequences, MetricsText& text) {
  const SequenceTable::Counts counts = sequences.counts();
  text.Family("cellbatch_sequences", "gauge",
              "Sequences whose state is kept: also idle ones that no call has cleared away yet.");
  text.Value({}, counts.live);
  text.Family("cellbatch_sequence_state_bytes", "gauge", "Bytes of those states.");
  text.Value({}, counts.bytes);
  text.Family("cellbatch_sequence_changes_total", "counter",
              "Sequences that were started, were ended by their client, timed out, or were dropped "
              "with their model or for a start that failed.");
  text.Value({{"what", "started"}}, counts.started);
  text.Value({{"what", "ended"}}, counts.ended);
  text.Value({{"what", "timed_out"}}, counts.timed_out);
  text.Value({{"what", "dropped"}}, counts.dropped);
}

void Traces(const OtlpExporter& traces, MetricsText& text) {
  text.Family("cellbatch_trace_spans_total", "counter",
              "Spans of traces: sent to the collector, or dropped.");
  text.Value({{"what", "sent"}}, traces.sent());
  text.Value({{"what", "dropped"}}, traces.dropped());
}

void Http(const std::vector<std::pair<std::string, const HttpCounts*>>& ports, MetricsText& text) {
  text.Family("cellbatch_http_connections", "gauge", "Connections of HTTP.");
  for (const auto& [port, counts] : ports) {
    text.Value({{"port", port}}, counts->connections.load());
  }
  text.Family("cellbatch_http_held_bytes", "gauge",
              "Bodies that come in, and replies that are not yet taken.");
  for (const auto& [port, counts] : ports) {
    text.Value({{"port", port}}, counts->held_bytes.load());
  }
  text.Family("cellbatch_http_cut_total", "counter",
              "Connections that were hung up on, by the bound that they met.");
  for (const auto& [port, counts] : ports) {
    for (int i = 0; i < kNumHttpCuts; ++i) {
      text.Value({{"port", port}, {"reason", Name(static_cast<HttpCut>(i))}},
                 counts->cut[static_cast<size_t>(i)].load());
    }
  }
}

void Grpc(const GrpcCounts& counts, MetricsText& text) {
  text.Family("cellbatch_grpc_connections", "gauge", "Connections of gRPC.");
  text.Value({}, counts.connections.load());
  text.Family("cellbatch_grpc_cut_total", "counter",
              "Connections that were hung up on, by the bound that they met.");
  for (int i = 0; i < kNumGrpcCuts; ++i) {
    text.Value({{"reason", Name(static_cast<GrpcCut>(i))}},
               counts.cut[static_cast<size_t>(i)].load());
  }
}

void Tls(const TlsCounts& counts, MetricsText& text) {
  text.Family("cellbatch_tls_connections", "gauge",
              "Connections that speak TLS, shaken hands with.");
  text.Value({}, counts.connections.load());
  text.Family("cellbatch_tls_handshakes", "gauge", "Handshakes under way.");
  text.Value({}, counts.handshakes.load());
  text.Family("cellbatch_tls_handshakes_total", "counter", "Handshakes, by how they ended.");
  for (size_t i = 0; i < kNumHandshakeEnds; ++i) {
    text.Value({{"outcome", Name(static_cast<HandshakeEnd>(i))}}, counts.ended[i].load());
  }
  text.Family("cellbatch_tls_certificates_total", "counter",
              "Certificates that changed while the server ran: taken, or refused.");
  text.Value({{"outcome", "taken"}}, counts.certificates_taken.load());
  text.Value({{"outcome", "refused"}}, counts.certificates_refused.load());
  text.Family("cellbatch_tls_certificate_not_after_seconds", "gauge",
              "When the certificate in force expires, since 1970.");
  text.Value({}, counts.not_after.load());
}

void Tokens(const TokenTable& tokens, MetricsText& text) {
  text.Family("cellbatch_token_calls_total", "counter", "Calls that ended, by token and outcome.");
  tokens.ForEach([&](const AccessUse& use) {
    for (size_t i = 0; i < kNumAccessOutcomes; ++i) {
      text.Value({{"token", use.name}, {"outcome", Name(static_cast<AccessOutcome>(i))}},
                 use.ended[i].load());
    }
  });
  text.Family("cellbatch_token_requests", "gauge", "Requests in flight, by token.");
  tokens.ForEach([&](const AccessUse& use) {
    text.Value({{"token", use.name}}, use.party.InFlight().requests);
  });
  text.Family("cellbatch_unauthenticated_total", "counter", "Calls that were not let in.");
  for (size_t i = 0; i < kNumUnauthenticated; ++i) {
    const auto reason = static_cast<Unauthenticated>(i);
    text.Value({{"reason", Name(reason)}}, tokens.unauthenticated(reason));
  }
  text.Family("cellbatch_token_files_total", "counter",
              "Files of tokens that changed while the server ran: taken, or refused.");
  text.Value({{"outcome", "taken"}}, tokens.taken());
  text.Value({{"outcome", "refused"}}, tokens.files_refused());
}

}  // namespace

MetricsExporter::MetricsExporter(const Scheduler& scheduler, StatsRegistry& stats,
                                 const Admission& admission, const Lifecycle& lifecycle,
                                 ServedModels models, bool nv_names)
    : scheduler_(scheduler),
      stats_(stats),
      admission_(admission),
      lifecycle_(lifecycle),
      models_(std::move(models)),
      nv_names_(nv_names) {}

std::string MetricsExporter::Text() const {
  const std::vector<std::shared_ptr<const Model>> served = models_();
  for (const auto& model : served) stats_.Of(*model);  // zeroes before the first request
  const ModelMetrics counted = CountModels(scheduler_.stats().Lanes(), stats_);
  MetricsText text;
  Whole(lifecycle_, admission_, text);
  text.Family("cellbatch_limit", "gauge",
              "Limits in force: flags that are numbers, and what the process may take.");
  for (const auto& [name, value] : limits_) {
    const auto whole = static_cast<int64_t>(value);
    if (static_cast<double>(whole) == value) {
      text.Value({{"name", name}}, whole);  // all digits
    } else {
      text.Value({{"name", name}}, value);
    }
  }
  WriteModels(counted, text);
  const std::vector<DeviceStats> devices = scheduler_.stats().Devices();
  Devices(devices, text);
  Places(served, devices, text);
  if (nv_names_) WriteNvNames(counted, text);
  if (grpc_ != nullptr) Grpc(*grpc_, text);
  if (refusals_ != nullptr) Refusals(*refusals_, text);
  if (failures_ != nullptr) Failures(*failures_, text);
  if (sequences_ != nullptr) Sequences(*sequences_, text);
  if (traces_ != nullptr) Traces(*traces_, text);
  Http(ports_, text);
  if (tls_ != nullptr) Tls(*tls_, text);
  if (tokens_ != nullptr) Tokens(*tokens_, text);
  Process(text);
  return text.Take();
}

}  // namespace cellbatch
