// cellbatch-server --explain MODEL: loads that model as the server would, measures T(b) as the server does, and says what
// became of it.
#ifndef CELLBATCH_SERVER_EXPLAIN_EXPLAIN_SERVED_H_
#define CELLBATCH_SERVER_EXPLAIN_EXPLAIN_SERVED_H_

#include <string>

#include "absl/status/statusor.h"
#include "cells/device/device.h"
#include "scheduler/scheduler.h"
#include "server/assemble/loader_limits.h"

namespace cellbatch {

// The text. Seconds: the model's warm-up runs on `devices`. The error has a line a problem, as --check's.
absl::StatusOr<std::string> ExplainServed(const std::string& repository, const std::string& name,
                                          const LoaderLimits& limits,
                                          const SchedulerOptions& options, DeviceSet devices);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_EXPLAIN_EXPLAIN_SERVED_H_
