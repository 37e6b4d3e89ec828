// Which lines the log takes while the server runs: those of --log-level, until somebody who may says otherwise (Triton's
// LogSettings, /v2/logging).
//
//   log_verbose_level  1 and more   debug, info, warn, error      one threshold, as --log-level: what is more urgent than a line
//   log_info           true               info, warn, error       that is taken is taken, too. Settings that say otherwise
//   log_warning        true                     warn, error       are refused
//   log_error          true                           error
//   none of them                                        off
//
//   log_format         "default" (text) or "json"                  as --log-format
//   log_failed_requests  lines a second                            as --log-failed-requests; ours, not Triton's
//
// log_file ("": stderr) is there to be read; it does not change.
//
// Threads: any.
#ifndef CELLBATCH_SERVER_CONTROL_LOG_CONTROL_H_
#define CELLBATCH_SERVER_CONTROL_LOG_CONTROL_H_

#include <mutex>

#include "absl/status/statusor.h"
#include "proto/grpc_service.pb.h"
#include "server/requests/failure_log.h"

namespace cellbatch {

class LogControl {
 public:
  // `changes`: whether callers may change anything (--log-control). `format`: that lines have now. `failures` outlives it.
  LogControl(bool changes, LogFormat format, FailureLog& failures)
      : changes_(changes), failures_(failures), format_(format) {}

  // All settings as they are then. What `request` says is changed before, all of it or none. PERMISSION_DENIED: it says
  // something, and nothing may be changed. INVALID_ARGUMENT: a setting that there is not, of another type, or that
  // contradicts another.
  absl::StatusOr<inference::LogSettingsResponse> Settings(
      const inference::LogSettingsRequest& request);

 private:
  const bool changes_;
  FailureLog& failures_;
  std::mutex mutex_;  // one change at a time
  LogFormat format_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CONTROL_LOG_CONTROL_H_
