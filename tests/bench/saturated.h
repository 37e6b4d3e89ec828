// A scheduler in this process, kept full: what the benchmarks `saturation` and tests/gpu's share. One thread drives.
//
//   Saturation full(devices, model, Lengths::Europarl(), seed);
//   const SaturatedRound round = full.Measure(seconds);      // warm-up and drain are not in it
//
// Ends the process with a message where anything fails, as in_process.h does.
#ifndef CELLBATCH_TESTS_BENCH_SATURATED_H_
#define CELLBATCH_TESTS_BENCH_SATURATED_H_

#include <cstdint>
#include <memory>

#include "tests/bench/in_process.h"

namespace cellbatch {

struct SaturatedRound {
  double requests_per_s = 0, mean_cells = 0, mean_batch = 0;
  double busy = 0;       // share of the time that devices computed
  double task_time = 0;  // seconds a task, the mean
};

// A chain model on a set of devices, at least 4 * b_peak requests in flight on each: its queue is a backlog (scheduler/batch_limit.h).
class Saturation {
 public:
  Saturation(DeviceSet devices, std::shared_ptr<const Model> model, const Lengths& lengths,
             uint64_t seed);
  ~Saturation();

  int b_max() const { return b_max_; }
  int b_peak() const { return b_peak_; }
  int in_flight() const;
  int num_devices() const { return num_devices_; }

  SaturatedRound Measure(double seconds);

 private:
  void SubmitOne();
  // Answers and replaces until `end`; the number answered. mean_cells collects their cells.
  int64_t Serve(double end, SaturatedRound& round);
  void Drain(int left);

  SteadyClock clock_;
  const std::shared_ptr<const Model> model_;
  const Lengths lengths_;
  LengthStream stream_;
  ChainRequests requests_;
  std::unique_ptr<Scheduler> scheduler_;
  int num_devices_ = 1, b_max_ = 0, b_peak_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_SATURATED_H_
