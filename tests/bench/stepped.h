// The scheduler without threads of its own, its steps made and timed here: how much of the time goes to
// deciding, and how much to computing. What the benchmarks `zoo` and `granularity` share.
//
//   +------------- stepping ------------------------------------+
//   | StepManager | StepWorker: enqueue | device | stamp, done  |      share = 1 - device / all of it
//   +-----------------------------------------------------------+
//
// With one CPU device that is what the scheduler's own thread does, step by step: manager and worker
// take turns on it, and read the clock that they read in the server. Who else wanted the core would be
// counted, too, so the thread is kept on one core and the others of the benchmark are kept off it. (CPU
// time of the thread would not see them, but reading it is a system call, and three of them a task came
// to a tenth of what is measured.) Steps that found nothing to do are not counted.
//
// Everything ends the process with a message when it fails.
#ifndef CELLBATCH_TESTS_BENCH_STEPPED_H_
#define CELLBATCH_TESTS_BENCH_STEPPED_H_

#include <sched.h>

#include <cstdint>
#include <memory>
#include <string>

#include "cells/device/device.h"
#include "cells/model.h"
#include "scheduler/clock.h"
#include "scheduler/scheduler.h"
#include "tests/zoo/workload.h"

namespace cellbatch {

// A repository with the workload's model alone, as long as this lives.
class WorkloadFolder {
 public:
  explicit WorkloadFolder(const zoo::Workload& workload, const std::string& more = "");
  ~WorkloadFolder();
  WorkloadFolder(const WorkloadFolder&) = delete;
  WorkloadFolder& operator=(const WorkloadFolder&) = delete;

  const std::string& model() const { return model_; }  // the model's folder

 private:
  std::string repository_, model_;
};

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
  // Nanoseconds so far, of the tasks that the manager has seen done.
  struct Times {
    int64_t all = 0, device = 0;
    Times operator-(const Times& earlier) const {
      return {all - earlier.all, device - earlier.device};
    }
    int64_t scheduling() const { return all - device; }
    double share() const { return static_cast<double>(scheduling()) / static_cast<double>(all); }
  };

  // `device_spec` names one device. options.threads is ignored.
  Stepped(SchedulerOptions options, const std::string& device_spec,
          std::shared_ptr<const Model> model);
  // `device`: one.
  Stepped(SchedulerOptions options, DeviceSet device, std::shared_ptr<const Model> model);
  ~Stepped();

  Scheduler& scheduler() { return *scheduler_; }

  // For any other thread of the benchmark: stays off the core of the thread that steps, if there are two.
  void KeepOff() const;

  // The thread that made it.
  bool Step();                           // false: nothing to do
  void Resume() { last_ns_ = NowNs(); }  // what was since the last step is not counted
  void StepUntilIdle();                  // both have nothing to do
  Times times() const;
  int64_t NowNs() const { return clock_.NowNs(); }

 private:
  SteadyClock clock_;
  cpu_set_t all_, others_;  // cores: this process's, and those but the stepping thread's
  std::unique_ptr<Scheduler> scheduler_;
  // To the end of the last step, and of the one before it: what that one computed is seen done.
  int64_t all_ns_ = 0, seen_ns_ = 0;
  int64_t last_ns_ = 0;  // when the last step ended
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_STEPPED_H_
