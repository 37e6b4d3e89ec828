// Which lines the log takes while the server runs: those of --log-level, until somebody who may says otherwise (Triton's
// LogSettings, /v2/logging).
//
//   log_verbose_level  1 and more   debug, info, warn, error      one threshold, as --log-level: what is more urgent than a line
//   log_info           true               info, warn, error       that is taken is taken, too. Settings that say otherwise
//   log_warning        true                     warn, error       are refused
//   log_error          true                           error
//   none of them                                        off
//
// log_file ("": stderr) and log_format ("default") are there to be read; they do not change.
//
// Threads: any.
#ifndef CELLBATCH_SERVER_CONTROL_LOG_CONTROL_H_
#define CELLBATCH_SERVER_CONTROL_LOG_CONTROL_H_

#include <mutex>

#include "absl/status/statusor.h"
#include "proto/grpc_service.pb.h"

namespace cellbatch {

class LogControl {
 public:
  // `changes`: whether callers may change anything (--log-control).
  explicit LogControl(bool changes) : changes_(changes) {}

  // All settings as they are then. What `request` says is changed before, all of it or none. PERMISSION_DENIED: it says
  // something, and nothing may be changed. INVALID_ARGUMENT: a setting that there is not, of another type, or that
  // contradicts another.
  absl::StatusOr<inference::LogSettingsResponse> Settings(
      const inference::LogSettingsRequest& request);

 private:
  const bool changes_;
  std::mutex mutex_;  // one change at a time
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CONTROL_LOG_CONTROL_H_
