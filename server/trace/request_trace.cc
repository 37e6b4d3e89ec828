#include "server/trace/request_trace.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace cellbatch {

namespace {

// Cells of each type that ran, by type; of a request of which not all ran (its decoder stopped, or it failed) as far as that
// can be told from how many did together: else empty.
std::vector<int64_t> CellsOf(const Model& model, const Request& request) {
  std::vector<int64_t> cells(model.types.size()), may_lack(model.types.size());
  int64_t left_out = -request.nodes_executed;
  for (const Subgraph& subgraph : request.graph.subgraphs()) {
    if (!subgraph.type.valid()) continue;
    const auto type = static_cast<size_t>(subgraph.type.value());
    const bool known = subgraph.stopped_at >= 0;
    const int32_t length = known ? subgraph.stopped_at + 1 : subgraph.length;
    cells[type] += length;
    left_out += length;
    const bool stops = subgraph.stop.column.valid() && !known;
    if (stops || !request.status.ok()) may_lack[type] += length;
  }
  if (left_out <= 0) return cells;
  const auto lacks = std::max_element(may_lack.begin(), may_lack.end());
  const bool one = std::count(may_lack.begin(), may_lack.end(), 0) + 1 ==
                   static_cast<std::ptrdiff_t>(may_lack.size());
  if (!one || *lacks < left_out) return {};
  cells[static_cast<size_t>(lacks - may_lack.begin())] -= left_out;
  return cells;
}

}  // namespace

Span& RequestTrace::Add(const char* name, int64_t start_ns, int64_t end_ns, int i) {
  Span& span = spans_.emplace_back();
  span.trace = place_.trace;
  span.id = NewSpanId();
  span.parent = place_.span;
  span.name = name;
  span.start_unix_ns = start_ns;
  span.end_unix_ns = std::max(start_ns, end_ns);
  if (i > 0) span.attributes.emplace_back("cellbatch.input", int64_t{i});
  return span;
}

void RequestTrace::Done(int i, const Model& model, const Request& request,
                        const std::vector<TypeTasks>& after, int64_t encoded_ns) {
  if (requests_++ >= kMostRequests) return;
  const RequestTimes& times = request.times;
  Add("decode", received_ns_, times.submitted, i);
  if (times.first_task_start == 0) {  // it never ran
    Add("queue", times.submitted, encoded_ns, i);
    return;
  }
  Add("queue", times.submitted, times.first_task_start, i);
  const int64_t computed = std::max(times.last_task_end, times.first_task_start);
  Span& compute = Add("compute", times.first_task_start, computed, i);
  compute.attributes.emplace_back("cellbatch.cells", request.nodes_executed);
  const std::vector<int64_t> cells = CellsOf(model, request);
  for (size_t t = 0; t < std::min({model.types.size(), after.size(), kMostTypes}); ++t) {
    if (!cells.empty() && cells[t] == 0) continue;
    const TypeTasks before = t < before_.size() ? before_[t] : TypeTasks();
    const std::string name = "cellbatch.cell." + model.types[t].name;
    if (!cells.empty()) compute.attributes.emplace_back(name + ".cells", cells[t]);
    compute.attributes.emplace_back(name + ".tasks",
                                    static_cast<int64_t>(after[t].tasks - before.tasks));
    compute.attributes.emplace_back(name + ".task_ms",
                                    static_cast<double>(after[t].ns - before.ns) / 1e6);
  }
  if (request.status.ok()) Add("encode", computed, encoded_ns, i);
}

std::vector<Span> RequestTrace::End(const Ending& ending) {
  Span request;
  request.trace = place_.trace;
  request.id = place_.span;
  request.parent = place_.parent;
  request.name = fmt::format("cellbatch {}", ending.wire);
  request.server = true;
  request.start_unix_ns = received_ns_;
  request.end_unix_ns = std::max(received_ns_, ending.ended_ns);
  const auto add = [&](const char* name, std::string_view value) {
    if (!value.empty()) request.attributes.emplace_back(name, std::string(value));
  };
  add("cellbatch.request_id", ending.id);
  add("cellbatch.model", ending.model);
  add("cellbatch.version", ending.version);
  add("cellbatch.outcome", ending.outcome);
  if (requests_ > 1) {
    request.attributes.emplace_back("cellbatch.requests", static_cast<int64_t>(requests_));
  }
  if (failed_ > 0) request.attributes.emplace_back("cellbatch.failed_requests", failed_);
  if (!ending.status.ok()) {
    add("error.type", absl::StatusCodeToString(ending.status.code()));
    request.error = std::string(ending.status.message());
  }
  spans_.insert(spans_.begin(), std::move(request));
  const int64_t since = ending.unix_ns - ending.ended_ns;
  for (Span& span : spans_) {
    span.start_unix_ns += since;
    span.end_unix_ns += since;
  }
  return std::move(spans_);
}

}  // namespace cellbatch
