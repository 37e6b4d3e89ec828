#include "server/trace/tracer.h"

namespace cellbatch {

namespace {

TracePlace Under(const TraceContext& caller) {
  return {.trace = caller.trace, .span = NewSpanId(), .parent = caller.span};
}

TracePlace NewPlace() { return {.trace = NewTraceId(), .span = NewSpanId(), .parent = {}}; }

}  // namespace

Tracer::Tracer(const TraceRules& rules, SpanSink& sink)
    : sink_(sink), on_(rules.on), rate_(rules.rate), count_(rules.count) {}

std::optional<TracePlace> Tracer::Begin(std::string_view traceparent) {
  if (!on_.load(std::memory_order_relaxed)) return std::nullopt;
  if (!traceparent.empty()) {
    if (const auto caller = ParseTraceparent(traceparent)) {
      if (!caller->sampled) return std::nullopt;
      return Under(*caller);
    }
  }
  const auto rate = static_cast<uint64_t>(rate_.load(std::memory_order_relaxed));
  if (seen_.fetch_add(1, std::memory_order_relaxed) % rate != 0 || !Spend()) return std::nullopt;
  return NewPlace();
}

std::optional<TracePlace> Tracer::BeginFailed(std::string_view traceparent) {
  if (!on_.load(std::memory_order_relaxed)) return std::nullopt;
  if (!traceparent.empty() && ParseTraceparent(traceparent)) return std::nullopt;  // as it was told
  if (!Spend()) return std::nullopt;
  return NewPlace();
}

bool Tracer::Spend() {
  int64_t left = count_.load(std::memory_order_relaxed);
  while (left > 0) {
    if (count_.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) return true;
  }
  return left < 0;
}

TraceRules Tracer::rules() const {
  return {.on = on_.load(std::memory_order_relaxed),
          .rate = rate_.load(std::memory_order_relaxed),
          .count = count_.load(std::memory_order_relaxed)};
}

void Tracer::SetRules(const TraceRules& rules) {
  rate_.store(rules.rate, std::memory_order_relaxed);
  count_.store(rules.count, std::memory_order_relaxed);
  on_.store(rules.on, std::memory_order_relaxed);
}

}  // namespace cellbatch
