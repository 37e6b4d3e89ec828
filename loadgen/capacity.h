// How many requests a second a server answers when it always has enough to do: a closed loop with a
// set number in flight. Good for choosing a rate; its latencies mean nothing and are not kept.

#ifndef CELLBATCH_LOADGEN_CAPACITY_H_
#define CELLBATCH_LOADGEN_CAPACITY_H_

#include <atomic>
#include <cstdint>

#include "absl/status/statusor.h"
#include "client/async_caller.h"
#include "loadgen/workload.h"

namespace cellbatch {

struct CapacityOptions {
  AsyncCallerOptions caller = {};
  int in_flight = 256;        // fewer where the workload has fewer streams (Workload::MostInFlight)
  double warmup_seconds = 2;  // and until as many answers came as are kept in flight
  double seconds = 5;         // at least; and until the turnover under way is whole: at least one
  uint64_t seed = 1;
};

struct Capacity {
  double per_second = 0;
  uint64_t answers = 0;
  double seconds = 0;  // that the measurement took
  int in_flight = 0;
};

// Blocks for warm-up and measurement. What it tells is never 0: as many answers came as were in flight, or more. The
// server's error where a request fails, also by its timeout.
absl::StatusOr<Capacity> MeasureCapacity(const CapacityOptions& options, const Workload& workload,
                                         const std::atomic<bool>& stop);

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_CAPACITY_H_
