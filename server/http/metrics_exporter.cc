#include "server/http/metrics_exporter.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "server/http/metrics_text.h"
#include "server/http/process_stats.h"
#include "server/kserve/kserve_service.h"

namespace cellbatch {

namespace {

constexpr int kLargestBatchEdge = 512;

// Divided, the number is the one that a decimal of the same digits is read as, and printed with these.
double Seconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }

struct Counted {
  std::string name, version;
  RequestCounts counts;
  Labels labels() const { return {{"model", name}, {"version", version}}; }
  Labels With(std::string_view name, std::string value) const {
    Labels all = labels();
    all.emplace_back(name, std::move(value));
    return all;
  }
};

// Of a version: what its lane counts and what those before it did. Gauges: of the one that is there.
struct Lane {
  std::string name, version;
  LaneStats stats;
  Labels labels() const { return {{"model", name}, {"version", version}}; }
  Labels Of(const CellTypeStats& type) const {
    Labels all = labels();
    all.emplace_back("cell", type.name);
    return all;
  }
};

void Times(const char* name, const char* help, const std::vector<Counted>& models,
           TimeCounts RequestCounts::*times, MetricsText& text) {
  text.Family(name, "histogram", help);
  for (const Counted& model : models) {
    const TimeCounts& counts = model.counts.*times;
    std::vector<std::pair<double, int64_t>> cumulative;
    int64_t below = 0;
    for (size_t i = 0; i < kTimeBuckets; ++i) {
      below += counts.buckets[i];
      cumulative.emplace_back(Seconds(TimeBucketEdgesNs()[i]), below);
    }
    text.Histogram(model.labels(), cumulative, counts.count, Seconds(counts.sum_ns));
  }
}

// How many entries lie in buckets that begin at or below `edge`: exact where the edge is a bucket's
// own, else a little more (a sixteenth of the edge at most).
int64_t AtOrBelow(const HistogramCounts& counts, int64_t edge) {
  int64_t below = 0;
  for (int i = 0; i < kHistogramBuckets && BucketLow(i) <= edge; ++i) {
    below += static_cast<int64_t>(counts.buckets[static_cast<size_t>(i)]);
  }
  return below;
}

void CellHistogram(const HistogramCounts& counts, const Labels& labels,
                   const std::vector<int64_t>& edges, double in_a_unit, MetricsText& text) {
  std::vector<std::pair<double, int64_t>> cumulative;
  for (const int64_t edge : edges) {
    cumulative.emplace_back(static_cast<double>(edge) / in_a_unit, AtOrBelow(counts, edge));
  }
  text.Histogram(labels, cumulative, static_cast<int64_t>(counts.count),
                 static_cast<double>(counts.sum) / in_a_unit);
}

void Requests(const std::vector<Counted>& models, MetricsText& text) {
  text.Family("cellbatch_requests_total", "counter", "ModelInfer requests that ended, by outcome.");
  for (const Counted& model : models) {
    for (int i = 0; i < kNumOutcomes; ++i) {
      text.Value(model.With("outcome", Name(static_cast<RequestOutcome>(i))),
                 model.counts.outcomes[static_cast<size_t>(i)]);
    }
  }
  text.Family("cellbatch_rejected_total", "counter",
              "Requests turned away, by the bound that did.");
  for (const Counted& model : models) {
    for (int i = 0; i < kNumRejections; ++i) {
      text.Value(model.With("reason", Name(static_cast<Rejection>(i))),
                 model.counts.rejections[static_cast<size_t>(i)]);
    }
  }
  text.Family("cellbatch_request_units_total", "counter",
              "Length of the requests answered: steps, words or nodes of their first input.");
  for (const Counted& model : models) text.Value(model.labels(), model.counts.units);
  Times("cellbatch_request_duration_seconds",
        "Answered requests: from the whole message here to the answer handed to gRPC.", models,
        &RequestCounts::request, text);
  Times("cellbatch_request_queue_seconds",
        "Of it: from the whole message here to the start of its first cell.", models,
        &RequestCounts::queue, text);
  Times("cellbatch_request_compute_seconds",
        "Of it: from the start of its first cell to the end of its last one.", models,
        &RequestCounts::compute, text);
}

void Cells(const std::vector<Lane>& lanes, MetricsText& text) {
  const auto each = [&](auto value) {
    for (const Lane& lane : lanes) {
      for (const CellTypeStats& type : lane.stats.types) {
        text.Value(lane.Of(type), static_cast<int64_t>(value(type)));
      }
    }
  };
  text.Family("cellbatch_cells_executed_total", "counter", "Cells computed.");
  each([](const CellTypeStats& type) { return type.cells; });
  text.Family("cellbatch_cells_discarded_total", "counter",
              "Of them, computed past a stop or a cancel.");
  each([](const CellTypeStats& type) { return type.discarded; });
  text.Family("cellbatch_decoder_steps_total", "counter",
              "Of them, steps of chains that stop at a word (decoders).");
  each([](const CellTypeStats& type) { return type.stop_steps; });
  text.Family("cellbatch_decoder_overrun_steps_total", "counter",
              "Of those, computed past the word that stopped them.");
  each([](const CellTypeStats& type) { return type.overrun; });
  text.Family("cellbatch_tasks_total", "counter", "Batched tasks: launches of many cells at once.");
  each([](const CellTypeStats& type) { return type.tasks; });
  text.Family("cellbatch_ready_cells", "gauge", "Cells whose inputs are there, not yet in a task.");
  each([](const CellTypeStats& type) { return type.ready; });

  text.Family("cellbatch_task_batch_size", "histogram", "Cells in one task.");
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= kLargestBatchEdge; size *= 2) sizes.push_back(size);
  for (const Lane& lane : lanes) {
    for (const CellTypeStats& type : lane.stats.types) {
      CellHistogram(type.batch_size, lane.Of(type), sizes, 1, text);
    }
  }
  text.Family("cellbatch_task_seconds", "histogram", "Device time of one task.");
  std::vector<int64_t> times;
  for (int64_t ns = 1 << 12; ns <= int64_t{1} << 32; ns *= 2) times.push_back(ns);
  for (const Lane& lane : lanes) {
    for (const CellTypeStats& type : lane.stats.types) {
      CellHistogram(type.task_ns, lane.Of(type), times, 1e9, text);
    }
  }
}

void Decisions(const std::vector<Lane>& lanes, MetricsText& text) {
  text.Family("cellbatch_policies_taken_over_total", "counter",
              "Policies that the model took over while it served.");
  for (const Lane& lane : lanes) text.Value(lane.labels(), lane.stats.policies_taken);
  text.Family("cellbatch_decisions_total", "counter",
              "Batched tasks, by the reason for which their cell type was chosen.");
  for (const Lane& lane : lanes) {
    for (const DecisionStats& decision : lane.stats.decisions) {
      Labels labels = lane.labels();
      labels.emplace_back("reason", decision.reason);
      text.Value(labels, static_cast<int64_t>(decision.tasks));
    }
  }
}

void Lanes(const std::vector<Lane>& lanes, MetricsText& text) {
  const auto each = [&](const char* name, const char* type, const char* help, auto value) {
    text.Family(name, type, help);
    for (const Lane& lane : lanes) text.Value(lane.labels(), value(lane.stats));
  };
  each("cellbatch_running_requests", "gauge", "Requests that have joined and are not done.",
       [](const LaneStats& lane) { return lane.running_requests; });
  each("cellbatch_queued_requests", "gauge", "Requests submitted that have not joined.",
       [](const LaneStats& lane) { return lane.waiting_requests; });
  each("cellbatch_queued_cells", "gauge", "Their cells.",
       [](const LaneStats& lane) { return lane.waiting_cells; });
  each("cellbatch_device_seconds_total", "counter", "Device time spent on the model's tasks.",
       [](const LaneStats& lane) { return Seconds(lane.device_ns); });
  each("cellbatch_rows_used", "gauge", "Rows that requests hold, over the model's tables.",
       [](const LaneStats& lane) { return lane.rows_used; });
  each("cellbatch_rows_total", "gauge", "Rows there are (--row-budget).",
       [](const LaneStats& lane) { return lane.rows_total; });
}

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

// The names that dashboards and autoscalers made for Triton ask for; durations in microseconds.
void NvNames(const std::vector<Counted>& models, const std::vector<Lane>& lanes,
             MetricsText& text) {
  const auto each = [&](const char* name, const char* help, auto value) {
    text.Family(name, "counter", help);
    for (const Counted& model : models) text.Value(model.labels(), int64_t{value(model.counts)});
  };
  each("nv_inference_request_success", "Requests answered.",
       [](const RequestCounts& c) { return c.done; });
  text.Family("nv_inference_request_failure", "counter", "Requests that ended otherwise.");
  const std::pair<const char*, std::vector<RequestOutcome>> reasons[] = {
      {"REJECTED", {RequestOutcome::kRejected}},
      {"CANCELED", {RequestOutcome::kCancelled, RequestOutcome::kDeadline}},
      {"BACKEND", {RequestOutcome::kError}},
      {"OTHER", {RequestOutcome::kInvalid}}};
  for (const Counted& model : models) {
    for (const auto& [reason, outcomes] : reasons) {
      int64_t count = 0;
      for (const RequestOutcome o : outcomes)
        count += model.counts.outcomes[static_cast<size_t>(o)];
      text.Value(model.With("reason", reason), count);
    }
  }
  each("nv_inference_count", "Inferences done.", [](const RequestCounts& c) { return c.done; });
  each("nv_inference_request_duration_us", "Sum of request times.",
       [](const RequestCounts& c) { return c.request_ns / 1000; });
  each("nv_inference_queue_duration_us", "Sum of queue times.",
       [](const RequestCounts& c) { return (c.queue_ns - c.input_ns) / 1000; });
  each("nv_inference_compute_input_duration_us", "Sum of input times.",
       [](const RequestCounts& c) { return c.input_ns / 1000; });
  each("nv_inference_compute_infer_duration_us", "Sum of compute times.",
       [](const RequestCounts& c) { return c.compute_ns / 1000; });
  each("nv_inference_compute_output_duration_us", "Sum of output times.",
       [](const RequestCounts& c) { return c.output_ns / 1000; });
  text.Family("nv_inference_exec_count", "counter", "Batched tasks.");
  for (const Lane& lane : lanes) {
    int64_t tasks = 0;
    for (const CellTypeStats& type : lane.stats.types) tasks += static_cast<int64_t>(type.tasks);
    text.Value(lane.labels(), tasks);
  }
  text.Family("nv_inference_pending_request_count", "gauge", "Requests waiting to start.");
  for (const Lane& lane : lanes) text.Value(lane.labels(), lane.stats.waiting_requests);
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
  text.Family("cellbatch_sequences", "gauge", "Sequences whose state is kept.");
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

// Of two lanes of one version (one drains while the other serves already) the gauges are added, too.
void AddLane(const LaneStats& lane, LaneStats& sum) {
  AddCounters(lane, sum);
  sum.waiting_requests += lane.waiting_requests;
  sum.waiting_cells += lane.waiting_cells;
  sum.running_requests += lane.running_requests;
  sum.rows_used += lane.rows_used;
  sum.rows_total += lane.rows_total;
  for (const CellTypeStats& type : lane.types) {
    for (CellTypeStats& to : sum.types) to.ready += to.name == type.name ? type.ready : 0;
  }
}

// `read` before the counts of those that have ended, so that none is counted twice or missed.
void CountVersions(const std::vector<LaneStats>& read, const StatsRegistry& stats,
                   std::vector<Counted>& models, std::vector<Lane>& lanes) {
  std::vector<int> places;
  const std::vector<VersionCounts> versions = stats.Read(read, &places);
  for (size_t v = 0; v < versions.size(); ++v) {
    const VersionCounts& version = versions[v];
    if (version.for_totals_alone) continue;  // Prometheus takes a rate of each series for itself
    models.push_back({version.name, version.version, version.requests});
    std::optional<LaneStats> sum = version.lanes;
    for (size_t i = 0; i < read.size(); ++i) {
      if (places[i] != static_cast<int>(v)) continue;
      if (!sum.has_value()) sum.emplace();
      AddLane(read[i], *sum);
    }
    if (sum.has_value()) lanes.push_back({version.name, version.version, *std::move(sum)});
  }
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
  std::vector<Counted> models;
  std::vector<Lane> lanes;
  CountVersions(scheduler_.stats().Lanes(), stats_, models, lanes);
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
  Requests(models, text);
  Lanes(lanes, text);
  Decisions(lanes, text);
  Cells(lanes, text);
  const std::vector<DeviceStats> devices = scheduler_.stats().Devices();
  Devices(devices, text);
  Places(served, devices, text);
  if (nv_names_) NvNames(models, lanes, text);
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
