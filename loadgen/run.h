// One measurement from connect to verdict.
//
//   connect -> warm-up -> measure -> drain        one schedule; a request belongs to the phase of
//              |<------ sender ----->|            its intended time, and every answer is awaited

#ifndef CELLBATCH_LOADGEN_RUN_H_
#define CELLBATCH_LOADGEN_RUN_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/async_caller.h"
#include "loadgen/arrivals.h"
#include "loadgen/priority.h"
#include "loadgen/samples.h"
#include "loadgen/verdict.h"
#include "loadgen/workload.h"

namespace cellbatch {

struct RunOptions {
  AsyncCallerOptions caller = {};
  ArrivalProcess process = ArrivalProcess::kPoisson;
  double rate = 100;
  double warmup_seconds = 5;
  double seconds = 20;
  uint64_t seed = 1;
  VerdictLimits limits = {};
};

// One model's share of a run.
struct PartResult {
  std::string name;
  double weight = 1;
  int64_t inputs = 1;  // of each request
  Summary summary;
};

struct RunResult {
  double rate = 0;
  ArrivalProcess process = ArrivalProcess::kPoisson;
  uint64_t seed = 0;
  double warmup_seconds = 0;
  Summary summary;
  Verdict verdict;
  std::map<std::string, uint64_t> errors;  // "CODE: text" -> how often, warm-up included
  ThreadPriority priority = ThreadPriority::kNormal;
  double cpu_cores = 0;  // of this process, over the run
  std::shared_ptr<const Samples> samples;
  std::vector<int32_t> lengths;   // of each request
  std::vector<uint32_t> part_of;  // each request: which of `parts` it is
  std::vector<PartResult> parts;
};

// How a run stands, for a progress line.
struct RunProgress {
  const char* phase;              // "warm-up", "measure", "drain"
  double elapsed = 0, total = 0;  // seconds of the schedule
  uint64_t sent = 0, completed = 0, rejected = 0, failed = 0;
};
std::string ProgressText(const RunProgress& progress);

// Called about once a second on the calling thread. Empty: none.
using ProgressCallback = std::function<void(const RunProgress&)>;

// Blocks until every answer is there, or was given up after the calls' timeout. `stop` set ends the
// run early (INVALID; the summary is of the time until then). UNAVAILABLE where no connection stands; INVALID_ARGUMENT for more than 1e8 requests.
absl::StatusOr<RunResult> RunOpenLoop(const RunOptions& options, const Workload& workload,
                                      const ProgressCallback& progress,
                                      const std::atomic<bool>& stop);

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_RUN_H_
