// The serving scheduler in virtual time: the real Scheduler with its manager, deciders, joins and batch limits, on
// simulated devices whose tasks take what was measured, and requests that arrive when a list says.
//
//   arrivals --> Submit --> StepManager, StepWorker ... --> Take --> latency of each, device time, batches
//                                 |        ^
//                                 v        | time moves when nobody has work: to the next arrival or the next task's end
//                             simulated devices, T(b) of TaskCosts
//
// What it leaves out: reading requests and writing answers, other threads on the cores, caches, noise. What a scheduler
// itself takes is in `costs` (TaskCosts::Slower) and in wake_ns; or, of the manager alone, it is measured as it runs
// (manager_ns): its steps then take in the world what they took here, and devices go on meanwhile.
//
// Deterministic: the same lanes, options and arrivals give the same report, and a world that has run gives what a new one
// would. One thread. A run costs some 100 ns a node and allocates while lists grow. The same steps by hand (Submit, Step,
// Rest) are for those who replay what somebody else decided.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_WORLD_SERVING_WORLD_H_
#define CELLBATCH_SCHEDULER_OFFLINE_WORLD_SERVING_WORLD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "cells/cell_graph.h"
#include "cells/device/sim/sim_device.h"
#include "cells/device/sim/sim_memory.h"
#include "cells/model.h"
#include "scheduler/offline/world/arrivals.h"
#include "scheduler/offline/world/task_costs.h"
#include "scheduler/offline/world/virtual_clock.h"
#include "scheduler/scheduler.h"

namespace cellbatch {

// Request number `shape` of a lane, sealed for so many tasks in flight, as often as that many of them are under way at
// once. Of a graph that grows everything is there at once. What it copies in and out is never touched.
using MakeGraph = std::function<CellGraph(int32_t shape, int max_tasks_in_flight)>;

struct WorldLane {
  std::shared_ptr<const Model>
      model;        // its id is the world's own, its largest batches are the costs'
  TaskCosts costs;  // of every device
  MakeGraph make;
  LaneRules rules = nullptr;
};

struct WorldPace {
  int64_t at_ns = 0;
  double times = 1;
};

struct WorldStall {
  int64_t at_ns = 0, ns = 0;
};

struct WorldOptions {
  int devices = 1;              // alike,
  bool own_memories = false;    // each in a memory of its own, as GPUs are; else all in one
  bool runs_by_itself = false;  // as a GPU does; else as a CPU, on its worker's thread
  // As SimDeviceOptions, of each device that runs by itself.
  int tasks_a_launch = 1;
  int64_t launch_ns = 0;
  // As SchedulerOptions.
  int max_tasks_in_flight = 0;
  int few_tasks_in_flight = 0;
  int max_requests = 1 << 14;  // beyond, arrivals wait outside
  int max_wait_tasks = SchedulerOptions().max_wait_tasks;
  int chain_turn = SchedulerOptions().chain_turn;
  int64_t priority_ageing = SchedulerOptions().priority_ageing;
  int64_t row_budget_bytes = SchedulerOptions().row_budget_bytes;
  // Until a scheduler that sleeps, because it had nothing to do for spin_ns, sees what arrives.
  int64_t wake_ns = 0, spin_ns = 50'000;
  // How fast the machine was when, by type and ascending, from the beginning of a run on: a task takes its cost times what
  // is said of the last moment before it, and from the last one on it begins anew. Empty: its cost.
  std::vector<std::vector<WorldPace>> pace = {};
  // When all devices stood still, and how long; ascending, from the beginning of a run on.
  std::vector<WorldStall> stalls = {};
  // Read before and after each step of the manager that did anything: so much later are its tasks enqueued, and so much
  // later does it look again. With it, a run is no longer deterministic. Null: the manager takes no time.
  std::function<int64_t()> manager_ns = nullptr;
  // A device starts a task; a request is answered. Null: nobody asks.
  std::function<void(int device, const BatchedTask& task)> started = nullptr;
  std::function<void(uint64_t tag, const Request& request)> answered = nullptr;
};

// Of one request, in ns: from its arrival to its first task, and from there to the end of its last one.
struct WorldAnswer {
  int64_t queue_ns = 0, compute_ns = 0;
  int64_t nodes = 0;
  bool ok = false;  // else it was refused, and the rest is 0
  int64_t latency_ns() const { return queue_ns + compute_ns; }
};

struct WorldReport {
  std::vector<WorldAnswer> answers;  // by arrival
  int64_t failed = 0;
  // Over those that were answered OK and are not among the first `skipped`.
  double mean_ns = 0;
  int64_t p50_ns = 0, p99_ns = 0;
  // Of all.
  double requests_per_s =
      0;  // from the first arrival to the last answer; of a closed loop, while it was full
  double device_busy = 0;  // of that time, the mean over devices
  int64_t tasks = 0, nodes = 0;
  int max_tasks_in_flight = 0;  // of each device, in force
  int64_t manager_ns = 0;       // that its steps took, by WorldOptions::manager_ns
  double mean_fill() const {
    return tasks == 0 ? 0 : static_cast<double>(nodes) / static_cast<double>(tasks);
  }
};

// The value at or below which that part of them lie; 0: there are none.
int64_t QuantileOf(std::vector<int64_t> values, double quantile);

class ServingWorld {
 public:
  // Ends the program where a model does not load.
  ServingWorld(const WorldOptions& options, std::vector<WorldLane> lanes);
  ~ServingWorld();

  // Until all are answered. Their times ascend. The first `skipped` find a world that is not full yet, and are not among
  // the latencies.
  WorldReport Run(absl::Span<const Arrival> arrivals, size_t skipped = 0);
  // A closed loop: each answer lets the next of the list in, whatever its time.
  WorldReport RunClosed(absl::Span<const Arrival> arrivals, int in_flight);

  // The same by hand.
  int64_t now_ns() const { return clock_.NowNs(); }
  // False: there is no slot left. `tag` comes back with the answer (WorldOptions::answered).
  bool Submit(int32_t lane, int32_t shape, uint64_t tag, int32_t priority = 0);
  // The workers, the manager and the workers once more where it found something. True if anybody did work.
  bool Step();
  // Time moves to the next event at a device, at most to `until`. False: there is neither.
  bool Rest(int64_t until = std::numeric_limits<int64_t>::max());
  Scheduler& scheduler() { return *scheduler_; }
  SimDevice& device(int d) { return *devices_[static_cast<size_t>(d)]; }
  const Model& model(int32_t lane) const { return *lanes_[static_cast<size_t>(lane)].model; }

 private:
  struct Playing;
  struct Ticket {  // of a request that is out: its Request::tag is where this lies
    int32_t lane, shape;
    uint64_t tag;
  };

  void MakeDevices();
  DeviceSet MadeDevices();
  bool StepManager();
  int64_t TaskNs(const BatchedTask& task);
  double PaceOf(size_t type, int64_t at_ns) const;
  int64_t StalledNs(int64_t start_ns, int64_t ns) const;
  std::unique_ptr<Request> RequestOf(int32_t lane, int32_t shape);
  std::vector<std::unique_ptr<Request>>& FreeOf(int32_t lane, int32_t shape);
  void TakeAll();
  void Answered(std::unique_ptr<Request> request);
  void Play(Playing& playing);
  bool LetIn(Playing& playing);
  WorldReport ReportOf(Playing& playing, size_t skipped) const;

  const WorldOptions options_;
  VirtualClock clock_;
  std::vector<WorldLane> lanes_;
  std::vector<SimDevice*> devices_;
  std::vector<std::vector<std::vector<std::unique_ptr<Request>>>> free_;  // by lane and shape
  std::vector<Ticket> tickets_;
  std::vector<uint64_t> free_tickets_;
  int64_t begin_ns_ = 0;  // of the run
  int64_t longest_stall_ns_ = 0;
  int64_t manager_ns_ = 0;  // so far
  bool loaded_ = false;     // what runs before that warms lanes
  int outstanding_ = 0;
  int64_t idle_since_ns_ = 0;
  Playing* playing_ = nullptr;
  std::unique_ptr<Scheduler> scheduler_;  // last: it goes first, and its devices with it
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_WORLD_SERVING_WORLD_H_
