// A thread's work with a scheduler: makes chains, submits them, takes them back through an outbox of its own, frees them.
//
//   KeepFull   as many in flight all the time, until it is told to stop; then takes back what is left
//   Arrive     an open loop: chains come at the times of a Poisson process, whatever is answered meanwhile, and their latency
//              counts from there, so that nobody looks faster by being sent late
//
//   .. --> take (up to 64) --> free --> make as many --> submit --> ..      each timed: what a request costs its driver
//
// Several of them drive one scheduler. Threads: made by anybody, used by one thread at a time, but for work().
#ifndef CELLBATCH_TESTS_GPU_CHAIN_DRIVER_H_
#define CELLBATCH_TESTS_GPU_CHAIN_DRIVER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "cells/model.h"
#include "scheduler/clock.h"
#include "scheduler/scheduler.h"
#include "tests/bench/in_process.h"

namespace cellbatch {

// Of the requests that were taken, since the driver was made.
struct DriverWork {
  int64_t requests = 0, cells = 0;
  int64_t make_ns = 0, submit_ns = 0, take_ns = 0, free_ns = 0;
  DriverWork& operator+=(const DriverWork& other);
  DriverWork operator-(const DriverWork& earlier) const;
  int64_t busy_ns() const { return make_ns + submit_ns + take_ns + free_ns; }
};

// When chains come: times are the clock's.
struct OpenLoop {
  double per_s = 0;
  int64_t first_ns = 0, end_ns = 0;
  int64_t measured_ns = 0;  // those that come from then on are measured
  bool spin = true;  // false: sleeps when nothing is to be done, which makes latencies longer
};

// Of the measured ones that were answered well; `late` is from the time of arrival until Submit took it.
struct ArrivalTimes {
  std::vector<int64_t> latency_ns, late_ns;
};

class ChainDriver {
 public:
  // `scheduler` and `clock` outlive it; `outbox` is of nobody else.
  ChainDriver(Scheduler& scheduler, const Clock& clock, std::shared_ptr<const Model> model,
              const Lengths& lengths, OutboxId outbox, uint64_t seed);

  // Both return when all that they sent is back; not OK: the first that was not taken or not answered well, after which they
  // send none.
  absl::Status KeepFull(int in_flight, const std::atomic<bool>& stop);
  absl::Status Arrive(const OpenLoop& arrivals, ArrivalTimes& times);

  DriverWork work() const;  // any thread

 private:
  enum Counter : uint8_t { kRequests, kCells, kMakeNs, kSubmitNs, kTakeNs, kFreeNs, kCounters };

  void Count(Counter counter, int64_t n);
  // `tag`: of every one of them.
  void Send(int n, uint64_t tag);
  int Take();  // into some_
  void Free(int n);
  void Failed(absl::Status why);
  // Until something is to be taken, or that time is over.
  void Wait(int64_t at_most_ns);

  Scheduler& scheduler_;
  const Clock& clock_;
  const OutboxId outbox_;
  LengthStream lengths_;
  ChainRequests chains_;
  std::mt19937_64 random_;
  int out_ = 0;               // submitted and not taken
  int64_t taken_ns_ = 0;      // when some_ was
  int64_t submitted_ns_ = 0;  // when Submit had taken the last ones
  std::vector<std::unique_ptr<Request>> some_, made_;
  absl::Status failure_;
  std::array<std::atomic<int64_t>, kCounters> counters_ = {};
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_GPU_CHAIN_DRIVER_H_
