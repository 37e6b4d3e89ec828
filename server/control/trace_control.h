// What is traced while the server runs: as --trace-rate says, until somebody who may says otherwise (Triton's TraceSetting,
// /v2/trace/setting). The settings are the server's; those of a model are the same, and are not changed.
//
//   trace_level    OFF, or TIMESTAMPS. TENSORS is refused: what a request brings is never traced
//   trace_rate     of requests without a traceparent, one in so many
//   trace_count    so many more of them; -1: no end
//   trace_mode (opentelemetry), log_frequency (0), trace_file (""), url (--trace-otlp)      are there to be read
//
// A setting without a value goes back to what the server was started with. Without a collector the level is OFF, and stays so.
//
// Threads: any.
#ifndef CELLBATCH_SERVER_CONTROL_TRACE_CONTROL_H_
#define CELLBATCH_SERVER_CONTROL_TRACE_CONTROL_H_

#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "proto/grpc_service.pb.h"
#include "server/trace/tracer.h"

namespace cellbatch {

class TraceControl {
 public:
  // `changes`: whether callers may change anything (--trace-control). `tracer`: null without a collector; outlives it.
  TraceControl(bool changes, std::string url, Tracer* tracer);

  // All settings as they are then; what `request` says is changed before, all of it or none. PERMISSION_DENIED: it says
  // something, and nothing may be changed. FAILED_PRECONDITION: there is no collector. INVALID_ARGUMENT: a setting that there
  // is not, of another kind, or of one model.
  absl::StatusOr<inference::TraceSettingResponse> Settings(
      const inference::TraceSettingRequest& request);

 private:
  const bool changes_;
  const std::string url_;
  Tracer* const tracer_;
  const TraceRules at_start_;
  std::mutex mutex_;  // one change at a time
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CONTROL_TRACE_CONTROL_H_
