// Sends spans to a collector: OTLP over HTTP, in protobuf, by a thread of its own, so that nobody ever waits for the collector.
//
//   Take --> [ at most max_spans wait ] --(half a second, or 512 of them)--> POST --> 2xx: sent
//     | no room: dropped                                                      | 429, 502 to 504, nobody there: again, later
//                                                                             | else: dropped
//
// While a batch is tried again nothing else is sent, and what comes fills the room that there is. When the exporter goes, what
// is left is tried once, for two seconds in all. What was dropped is counted; why, is logged once a minute at most. A span
// that waits takes about a KiB. Names are resolved on a thread beside it, which is left behind when the exporter goes first:
// nothing ends the system's resolver while no name server answers.
#ifndef CELLBATCH_SERVER_HTTP_OTLP_OTLP_EXPORTER_H_
#define CELLBATCH_SERVER_HTTP_OTLP_OTLP_EXPORTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/trace/span.h"

namespace cellbatch {

// The addresses of a host, in numbers. May wait; and outlive the exporter, so it owns what it uses.
using ResolveHost =
    std::function<absl::StatusOr<std::vector<std::string>>(const std::string& host)>;

struct OtlpOptions {
  std::string url;  // http://HOST[:PORT]/PATH
  int64_t max_spans = 8192;
  std::vector<std::pair<std::string, std::string>> resource;  // who sends, in OpenTelemetry's words
  ResolveHost resolve = {};                                   // none: as the system does
};

class OtlpExporter final : public SpanSink {
 public:
  // INVALID_ARGUMENT: no such URL; https is the business of an agent beside the server. Connects later.
  static absl::StatusOr<std::unique_ptr<OtlpExporter>> Open(OtlpOptions options);
  ~OtlpExporter() override;

  void Take(std::vector<Span> spans) override;
  // Any thread.
  int64_t sent() const;
  int64_t dropped() const;
  const std::string& url() const;

 private:
  class Impl;
  explicit OtlpExporter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_OTLP_OTLP_EXPORTER_H_
