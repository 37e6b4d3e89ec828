// Which requests are traced, and what becomes of it. Off, it is a pointer that is null.
//
//   a valid traceparent, sampled        traced, as part of the caller's trace
//   a valid traceparent, not sampled    not traced
//   none                                every trace_rate-th; one that fails and has a line in the log: always, without its tasks
//
// trace_count, if it is not -1: so many more, then none of our own choice. Triton's TraceSetting shows and changes these.
//
// Any thread. Deciding costs two relaxed atomic operations.
#ifndef CELLBATCH_SERVER_TRACE_TRACER_H_
#define CELLBATCH_SERVER_TRACE_TRACER_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "server/trace/span.h"

namespace cellbatch {

struct TraceRules {
  bool on = true;       // trace_level: TIMESTAMPS, or OFF
  int64_t rate = 1000;  // of requests without a traceparent one in so many
  int64_t count = -1;   // so many more; -1: no end
};

// A request's place in a trace.
struct TracePlace {
  TraceId trace = {};
  SpanId span = {};              // of the request itself
  std::optional<SpanId> parent;  // the caller's
};

class Tracer {
 public:
  // Outlives it.
  Tracer(const TraceRules& rules, SpanSink& sink);

  // None: it is not traced. `traceparent`: as it came; empty: it did not.
  std::optional<TracePlace> Begin(std::string_view traceparent);
  // Of one that failed, and that Begin had passed over.
  std::optional<TracePlace> BeginFailed(std::string_view traceparent);
  void End(std::vector<Span> spans) { sink_.Take(std::move(spans)); }

  TraceRules rules() const;
  void SetRules(const TraceRules& rules);

 private:
  bool Spend();

  SpanSink& sink_;
  std::atomic<bool> on_;
  std::atomic<int64_t> rate_, count_;
  std::atomic<uint64_t> seen_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_TRACE_TRACER_H_
