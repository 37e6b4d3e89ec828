// Requests for a scheduler that the benchmark steps: submitted, timed and taken back on a thread of their own, on
// another core where there is one, as a server's threads do. What is answered is submitted again at once, so as many
// are in flight all the time, but for those on their way.
//
//   Arrivals' thread    Take --> deadline off --> Submit --> deadline on        (server/requests/deadlines.h's timer tells
//   the stepping one    StepManager, StepWorker                                  the scheduler of one in a hundred)
//
// Threads: made, asked and destroyed by the stepping one.
#ifndef CELLBATCH_TESTS_BENCH_ARRIVALS_H_
#define CELLBATCH_TESTS_BENCH_ARRIVALS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "cells/model.h"
#include "scheduler/clock.h"
#include "scheduler/scheduler.h"
#include "server/requests/deadlines.h"

namespace cellbatch {

using MakeRequest = std::unique_ptr<Request> (*)(std::shared_ptr<const Model>, std::mt19937&);

class Arrivals {
 public:
  // Makes `in_flight` requests and submits them before it returns; keeps the calling thread on one core and its own
  // off that one. `scheduler` and `clock` outlive it; the scheduler has room for as many.
  Arrivals(Scheduler& scheduler, const Clock& clock, std::shared_ptr<const Model> model,
           int in_flight, MakeRequest make);
  ~Arrivals();

  // Waits until everything answered so far is submitted again.
  void CatchUp();
  // From now on, what is answered is not submitted again.
  void Stop() { stop_ = true; }
  // Of what was taken so far: bytes of the scheduler's blocks a request, and requests that their deadline ended.
  double bytes_per_request() const;
  int64_t expired() const { return expired_; }

 private:
  void Begin(const std::shared_ptr<const Model>& model, MakeRequest make);
  void Run();
  void Submit(std::unique_ptr<Request> request);
  int TakeSome();

  Scheduler& scheduler_;
  const Clock& clock_;
  std::mt19937 random_{1};
  std::vector<DeadlineEntry> entries_;  // by Request::tag
  std::vector<std::unique_ptr<Request>> taken_;
  std::atomic<bool> stop_ = false, end_ = false;
  std::atomic<int64_t> found_nothing_ =
      0;  // times that nothing was to be taken; > 0: all are submitted
  std::atomic<int64_t> bytes_ = 0, blocks_ = 0, expired_ = 0;
  std::optional<DeadlineTimer> timer_;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_ARRIVALS_H_
