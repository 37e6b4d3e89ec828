// The real scheduler on simulated devices, in virtual time, on one thread: every run follows from
// its seed. Who steps next is drawn at random; time moves only when nobody has anything to do.
//
//   Generator -> Plan -> CellGraph -> Submit    Notify (cancel, expire, late news)
//                  |                      \      /
//               Evaluate                 Scheduler <-- StepManager, StepWorker: this driver
//                  v                          |
//               Checker <---- watches ---- SimDevices (delays, refusals, held signals, failures)
#ifndef CELLBATCH_TESTS_SIMULATION_SIMULATION_H_
#define CELLBATCH_TESTS_SIMULATION_SIMULATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cells/device/sim/sim_device.h"
#include "scheduler/policy/join_spec.h"
#include "scheduler/policy/policy_spec.h"
#include "scheduler/scheduler.h"
#include "tests/simulation/checker.h"
#include "tests/simulation/generator.h"
#include "tests/simulation/sim_world.h"

namespace cellbatch::sim {

inline constexpr int kHeldSteps = 50;  // of the driver, that a signal is held

struct SimulationOptions {
  uint64_t seed = 1;
  int64_t requests = 1000;
  int workers = 2;
  int memories = 1;  // workers take turns
  // Memories are of two kinds, in turn; so are models, of the first, the second or both.
  bool two_kinds = false;
  int models = 1;
  double change_chance = 0;  // of driver steps, to load another model or to unload one
  int most_models = 4;       // at a time
  // Of driver steps, to let a model take over another policy. Not with kCellular, of which more is promised.
  double policy_change_chance = 0;
  bool calibrate = false;  // T(b) is measured when a model is loaded
  Priorities priorities = Priorities::kLaterFirst;
  double weight_ratio = 1;  // of a model's share of the devices to the one before it
  int max_tasks_in_flight = 2;
  Stealing stealing = Stealing::kWhenIdle;
  Limits limits;
  int max_wait_tasks = 20;
  int chain_turn = 64;
  int32_t priority_levels = 1, default_priority_level = 1;  // of every model's requests
  int64_t priority_ageing = 1000;
  PolicyKind policy =
      PolicyKind::kCellular;            // all but kSufficient; an FSM's table is drawn by the seed
  bool may_wait = false;                // whether some types wait for their batches to fill
  JoinSpec join;                        // of every model
  UnfoldOptions unfold;                 // of every model
  int64_t row_budget_bytes = 64 << 10;  // of one model in one memory
  int in_flight = 50;                   // requests submitted and not answered, at most
  int cancel_permille = 20;             // of requests: cancelled or expired, some time
  SimCost cost = {1000, 50};
  double delay_chance = 0;    // of tasks, to take up to 20 times longer
  double refusal_chance = 0;  // of Enqueues, to take less
  double hold_chance = 0;     // of driver steps, to hold a device's signal for a while
  double fail_chance = 0;     // of driver steps, to break a device; one is left at least,
  bool may_lose_all = false;  // or none
  // Of driver steps, to let a device that runs by itself hang, which is noticed only because a task takes longer
  // than the scheduler's two limits.
  double hang_chance = 0;
  int64_t task_time_limit_ns = 10'000'000'000;
  int task_time_factor = 100;
  int signal_bits = 64;
  // Devices run by themselves as time moves, instead of when they are called; failed, they may go on writing
  // until they are abandoned.
  bool asynchronous = false, late_writes = false;
  uint64_t first_sequence = 1;   // of each device's first task: just below where counters wrap
  int launch_multiple = 1;       // tasks are padded to it
  bool host_blocks = false;      // devices reach no other memory of the host
  double grow_chance = 0;        // of requests, to come in pieces
  double late_take_chance = 0;   // of manager's steps, to leave what is in the outbox there
  bool lock_step = false;        // everybody steps in turn, instead of at random
  std::vector<Shape> shapes;     // empty: all of them
  Recorder* recorder = nullptr;  // of the scheduler; null: none
};

// Everything drawn from the seed.
SimulationOptions RandomOptions(uint64_t seed, int64_t requests);
// And what is done with what the unfolder knows (a record does not hold it, so it stands apart).
SimulationOptions WithUnfolding(SimulationOptions options);
// One scheduler that lives long, with models that come and go, requests that are cancelled and news that come late: its
// heap must not grow with the requests it has had.
SimulationOptions LongLivedOptions(int64_t requests);
std::string Describe(const SimulationOptions& options);
// Of memories and models, by number.
DeviceKind KindOfMemory(const SimulationOptions& options, int memory);
DeviceKinds KindsOfModel(const SimulationOptions& options, int model);
// What everybody is promised in such a run.
TurnRules RulesOf(const SimulationOptions& options);
// A task that is longer in progress is a device that hangs.
int64_t MostTaskNs(const SimulationOptions& options);

struct SimulationReport {
  Tally tally;
  int64_t submitted = 0;
  int64_t steps = 0;
  LongestWaits longest;
  int64_t loads = 0, unloads = 0, failed_loads = 0, takeovers = 0;
  int64_t hung = 0;  // devices that hung, and were given up
  bool all_lost =
      false;  // every device was: then models may not be loaded, nor their requests submitted
  // Heap in use (large blocks, too), the simulation's own included, whenever another tenth of the requests was submitted
  // and as many models are open as in the beginning.
  std::vector<int64_t> heap_bytes;
  int64_t violation_count = 0;
  std::vector<std::string> violations;  // the first of them
};

// From a fifth of the requests to nine tenths. What is in flight at these moments differs, by kHeapNoiseBytes at most.
// None: it was not looked at that often.
std::optional<int64_t> HeapGrowthBytes(const SimulationReport& report);
inline constexpr int64_t kHeapNoiseBytes = 128 << 10;
// What is allocated and not freed in this process.
int64_t HeapInUse();

// Runs until every request is answered, something is violated, or nothing moves any more.
SimulationReport Simulate(const SimulationOptions& options);

}  // namespace cellbatch::sim

#endif  // CELLBATCH_TESTS_SIMULATION_SIMULATION_H_
