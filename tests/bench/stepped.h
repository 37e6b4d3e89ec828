// The scheduler without threads of its own, its steps made and timed here: how much of the time goes to
// deciding, and how much to computing. What the benchmarks `zoo` and `granularity` share.
//
//   +------------- stepping ------------------------------------+
//   | StepManager | StepWorker: enqueue | device | stamp, done  |      share = 1 - device / all of it
//   +-----------------------------------------------------------+
//
// With one CPU device that is what the scheduler's own thread does, step by step: manager and worker
// take turns on it. Everything is CPU time of that thread, the tasks' stamps too: who else wants the
// core (the answers' taker, when it is woken) changes nothing. Steps that found nothing to do are not
// counted.
//
// Everything ends the process with a message when it fails.
#ifndef CELLBATCH_TESTS_BENCH_STEPPED_H_
#define CELLBATCH_TESTS_BENCH_STEPPED_H_

#include <cstdint>
#include <memory>
#include <string>

#include "cells/model.h"
#include "scheduler/clock.h"
#include "scheduler/scheduler.h"
#include "tests/zoo/workload.h"

namespace cellbatch {

// The workload's model as the server would load it: written to a folder, loaded, the folder removed.
// `more` is put behind its config.textproto.
std::shared_ptr<const Model> LoadWorkload(const zoo::Workload& workload, ModelId id,
                                          const std::string& more = "");

// A request as the server would make it; `asked` is borrowed until it is answered. `outputs`: empty
// means those that it names.
std::unique_ptr<Request> MakeRequest(std::shared_ptr<const Model> model, const zoo::Asked& asked,
                                     const std::vector<std::string>& outputs,
                                     int max_tasks_in_flight);

class Stepped {
 public:
  // Nanoseconds so far.
  struct Times {
    int64_t manager = 0, worker = 0, device = 0;  // device is within worker
    Times operator-(const Times& earlier) const {
      return {manager - earlier.manager, worker - earlier.worker, device - earlier.device};
    }
    int64_t scheduling() const { return manager + worker - device; }
    double share() const {
      return static_cast<double>(scheduling()) / static_cast<double>(manager + worker);
    }
  };

  // `device_spec` names one device. options.threads is ignored.
  Stepped(SchedulerOptions options, const std::string& device_spec,
          std::shared_ptr<const Model> model);
  ~Stepped();

  Scheduler& scheduler() { return *scheduler_; }

  // On the thread that made it: stamps are its CPU time.
  bool Step();           // false: nothing to do
  void StepUntilIdle();  // both have nothing to do
  Times times() const;
  int64_t NowNs() const { return clock_.NowNs(); }

 private:
  class ThreadCpuClock final : public Clock {
   public:
    int64_t NowNs() const override;
  };

  ThreadCpuClock clock_;
  std::unique_ptr<Scheduler> scheduler_;
  int64_t manager_ns_ = 0, worker_ns_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_STEPPED_H_
