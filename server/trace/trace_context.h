// Who asked for what is traced: W3C Trace Context's `traceparent`, and ids of our own.
//
//   00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
//   version, trace id, span id of the caller, flags (bit 0: sampled)
//
// Pure functions, but for NewId; any thread.
#ifndef CELLBATCH_SERVER_TRACE_TRACE_CONTEXT_H_
#define CELLBATCH_SERVER_TRACE_TRACE_CONTEXT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cellbatch {

inline constexpr std::string_view kTraceparent = "traceparent";

using TraceId = std::array<uint8_t, 16>;
using SpanId = std::array<uint8_t, 8>;

struct TraceContext {
  TraceId trace = {};
  SpanId span = {};
  bool sampled = false;
};

// None: it is not as the recommendation says (upper case, zeros, a length that its version does not have), and is as if it
// had not come. Of later versions what they share with 00 is read.
std::optional<TraceContext> ParseTraceparent(std::string_view text);

// Hexadecimal digits, lower case.
std::string Digits(const TraceId& id);
std::string Digits(const SpanId& id);

// Not zero, no two alike as far as chance goes. Any thread; a lock-free addition, a few ns.
TraceId NewTraceId();
SpanId NewSpanId();

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_TRACE_TRACE_CONTEXT_H_
