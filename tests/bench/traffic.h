// Traffic for several models of one in-process scheduler, driven and answered by the calling thread: what the
// benchmarks `two_models` and `reload` share.
//
//   Traffic of a model    `in_flight` requests at all times, each answered one replaced at once (a flood), or
//                         Poisson arrivals of `rate`, latency counted from the intended moment; or neither
//
// Models are LSTMs over vectors, lengths Europarl's. Everything ends the process with a message when it fails.
#ifndef CELLBATCH_TESTS_BENCH_TRAFFIC_H_
#define CELLBATCH_TESTS_BENCH_TRAFFIC_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "scheduler/clock.h"
#include "scheduler/scheduler.h"
#include "tests/bench/in_process.h"

namespace cellbatch {

struct Traffic {
  ChainRequests requests;
  LengthStream lengths;
  double rate = 0;  // requests/s
  int in_flight = 0;

  int outstanding = 0;
  int64_t next_arrival_ns = 0;
  // Since Serve began.
  int64_t answered = 0;
  std::vector<double> latencies_s = {};
};

class BenchServer {
 public:
  BenchServer(const std::string& devices, Lengths lengths);
  ~BenchServer();

  // Loads an LSTM of `hidden` units and gives it traffic, none at first; returns the traffic's index.
  int AddModel(int hidden);
  // Loads and unloads alone, without traffic: on any one other thread, while Serve runs.
  void Load(int hidden, int model_id);
  void Unload(int model_id);

  int b_max(int model) const { return b_max_[static_cast<size_t>(model)]; }
  Traffic& traffic(int model) { return traffic_[static_cast<size_t>(model)]; }
  int64_t device_ns(int model);

  // Serves for `seconds`, or until `enough` says so at a look; counts and latencies start anew. Seconds it took.
  double Serve(double seconds, const std::function<bool()>& enough = nullptr);
  // Ends all traffic and waits for what is out.
  void Drain();
  // Requests/s of this model alone, in a flood of four full batches.
  double Capacity(int model, double seconds);

 private:
  void Submit(int m, int64_t intended_ns);
  void Arrive(int m, int64_t now);
  absl::Duration UntilNextArrival(int64_t now);
  int Answer();
  int64_t NowNs() const { return clock_.NowNs(); }

  SteadyClock clock_;
  const Lengths lengths_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<Traffic> traffic_;
  std::vector<int> b_max_;
  std::mt19937_64 random_{3};
};

// The 99th percentile as the ceiling order statistic. REQUIRES: at least 100 values.
double P99(std::vector<double> values);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_TRAFFIC_H_
