// What is known of one traced operation, in OpenTelemetry's words: plain values.
#ifndef CELLBATCH_SERVER_TRACE_SPAN_H_
#define CELLBATCH_SERVER_TRACE_SPAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/trace/trace_context.h"

namespace cellbatch {

struct Span {
  using Value = std::variant<int64_t, double, std::string>;

  TraceId trace = {};
  SpanId id = {};
  std::optional<SpanId> parent;
  std::string name;
  bool server = false;  // else internal
  int64_t start_unix_ns = 0, end_unix_ns = 0;
  std::vector<std::pair<std::string, Value>> attributes = {};
  std::optional<std::string> error = {};  // what it failed of
};

// Takes spans that are done. Any thread; never waits: what it has no room for is dropped, and counted.
class SpanSink {
 public:
  virtual ~SpanSink() = default;
  virtual void Take(std::vector<Span> spans) = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_TRACE_SPAN_H_
