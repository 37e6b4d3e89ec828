// Metrics of models: what their versions counted, and the lanes that they run in. Families of Prometheus' text format.
#ifndef CELLBATCH_SERVER_HTTP_MODEL_METRICS_H_
#define CELLBATCH_SERVER_HTTP_MODEL_METRICS_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scheduler/stats.h"
#include "server/http/metrics_text.h"
#include "server/requests/request_stats.h"

namespace cellbatch {

// By version of a model, in the order in which they were first counted.
struct ModelMetrics {
  struct Version {
    std::string name, version;
    Labels labels() const { return {{"model", name}, {"version", version}}; }
    Labels With(std::string_view label, std::string value) const {
      Labels all = labels();
      all.emplace_back(label, std::move(value));
      return all;
    }
  };
  struct Requests : Version {
    RequestCounts counts;
  };
  // What its lane counts and what those before it did. Gauges: of the one that is there.
  struct Lane : Version {
    LaneStats stats;
  };

  std::vector<Requests> requests;
  std::vector<Lane> lanes;
};

// `read`, the scheduler's lanes, before the counts of those that have ended, so that none is counted twice or missed. Any
// thread.
ModelMetrics CountModels(const std::vector<LaneStats>& read, const StatsRegistry& stats);

void WriteModels(const ModelMetrics& counted, MetricsText& text);

// The names that dashboards and autoscalers made for Triton ask for; durations in microseconds.
void WriteNvNames(const ModelMetrics& counted, MetricsText& text);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_MODEL_METRICS_H_
