#include "server/http/model_metrics.h"

#include <cstdint>
#include <optional>
#include <utility>

namespace cellbatch {
namespace {

using Counted = ModelMetrics::Requests;
using Lane = ModelMetrics::Lane;

constexpr int kLargestBatchEdge = 512;

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
              "Messages turned away, by the bound that did; an Infer of many inputs is one.");
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
        text.Value(lane.With("cell", type.name), static_cast<int64_t>(value(type)));
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
      CellHistogram(type.batch_size, lane.With("cell", type.name), sizes, 1, text);
    }
  }
  text.Family("cellbatch_task_seconds", "histogram", "Device time of one task.");
  std::vector<int64_t> times;
  for (int64_t ns = 1 << 12; ns <= int64_t{1} << 32; ns *= 2) times.push_back(ns);
  for (const Lane& lane : lanes) {
    for (const CellTypeStats& type : lane.stats.types) {
      CellHistogram(type.task_ns, lane.With("cell", type.name), times, 1e9, text);
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
      text.Value(lane.With("reason", decision.reason), static_cast<int64_t>(decision.tasks));
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

}  // namespace

ModelMetrics CountModels(const std::vector<LaneStats>& read, const StatsRegistry& stats) {
  ModelMetrics counted;
  std::vector<int> places;
  const std::vector<VersionCounts> versions = stats.Read(read, &places);
  for (size_t v = 0; v < versions.size(); ++v) {
    const VersionCounts& version = versions[v];
    if (version.for_totals_alone) continue;  // Prometheus takes a rate of each series for itself
    counted.requests.push_back({{version.name, version.version}, version.requests});
    std::optional<LaneStats> sum = version.lanes;
    for (size_t i = 0; i < read.size(); ++i) {
      if (places[i] != static_cast<int>(v)) continue;
      if (!sum.has_value()) sum.emplace();
      AddLane(read[i], *sum);
    }
    if (!sum.has_value()) continue;
    counted.lanes.push_back({{version.name, version.version}, *std::move(sum)});
  }
  return counted;
}

void WriteModels(const ModelMetrics& counted, MetricsText& text) {
  Requests(counted.requests, text);
  Lanes(counted.lanes, text);
  Decisions(counted.lanes, text);
  Cells(counted.lanes, text);
}

void WriteNvNames(const ModelMetrics& counted, MetricsText& text) {
  const auto& [models, lanes] = counted;
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

}  // namespace cellbatch
