// Everything the server counts, in Prometheus' text format. Reads copies of counters that others
// keep writing; costs about a millisecond and stops nobody. What each name means: server/README.md.
#ifndef CELLBATCH_SERVER_HTTP_METRICS_EXPORTER_H_
#define CELLBATCH_SERVER_HTTP_METRICS_EXPORTER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cells/model.h"
#include "scheduler/scheduler.h"
#include "server/grpc/connection_guard.h"
#include "server/http/connection_table.h"
#include "server/http/otlp/otlp_exporter.h"
#include "server/lifecycle.h"
#include "server/requests/admission.h"
#include "server/requests/failure_log.h"
#include "server/requests/request_stats.h"
#include "server/requests/sequences.h"
#include "server/tls/tls_counts.h"
#include "server/tokens/token_table.h"
#include "server/wire/refusal_counts.h"

namespace cellbatch {

using ServedModels = std::function<std::vector<std::shared_ptr<const Model>>()>;

class MetricsExporter {
 public:
  // What it is given outlives it. `nv_names`: also the names that Triton's dashboards query.
  MetricsExporter(const Scheduler& scheduler, StatsRegistry& stats, const Admission& admission,
                  const Lifecycle& lifecycle, ServedModels models, bool nv_names);

  // Before the first Text: limits that do not change while it runs, by name (options.h, LimitsOf, and what the machine has).
  void ShowLimits(std::vector<std::pair<std::string, double>> limits) {
    limits_ = std::move(limits);
  }

  // Likewise: counts of a server of HTTP, by the name of its port.
  void Watch(std::string port, const HttpCounts& counts) {
    ports_.emplace_back(std::move(port), &counts);
  }
  // And of the gRPC port.
  void Watch(const GrpcCounts& counts) { grpc_ = &counts; }
  // Likewise, of ports that speak TLS.
  void Watch(const TlsCounts& counts) { tls_ = &counts; }
  // Likewise, calls by token.
  void Watch(const TokenTable& tokens) { tokens_ = &tokens; }
  // Likewise, messages that it refused for what they contain.
  void Watch(const RefusalCounts& refusals) { refusals_ = &refusals; }

  // Likewise, lines of requests that failed.
  void Watch(const FailureLog& failures) { failures_ = &failures; }
  // Likewise, states that it keeps between requests.
  void Watch(const SequenceTable& sequences) { sequences_ = &sequences; }
  // Likewise, spans of traces.
  void Watch(const OtlpExporter& traces) { traces_ = &traces; }

  std::string Text() const;  // any thread

  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  const Scheduler& scheduler_;
  StatsRegistry& stats_;
  const Admission& admission_;
  const Lifecycle& lifecycle_;
  const ServedModels models_;
  const bool nv_names_;
  std::vector<std::pair<std::string, double>> limits_;
  std::vector<std::pair<std::string, const HttpCounts*>> ports_;
  const GrpcCounts* grpc_ = nullptr;
  const RefusalCounts* refusals_ = nullptr;
  const TlsCounts* tls_ = nullptr;
  const TokenTable* tokens_ = nullptr;
  const FailureLog* failures_ = nullptr;
  const SequenceTable* sequences_ = nullptr;
  const OtlpExporter* traces_ = nullptr;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_METRICS_EXPORTER_H_
