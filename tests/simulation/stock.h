// The models of a simulated scheduler: loaded and unloaded while requests run. Adding and removing are calls
// that wait; what happens meanwhile is the driver's (SchedulerOptions::meanwhile), so that all of it stays on
// one thread and follows from the seed.
//
//   Add                 ... load, warm-up tasks, perhaps T(b) ...    open: Prepare may draw it, Checker watches it
//   Remove   closed: Submit must refuse it ... its last request leaves ...    Checker: nothing of it is left
#ifndef CELLBATCH_TESTS_SIMULATION_STOCK_H_
#define CELLBATCH_TESTS_SIMULATION_STOCK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "cells/device/sim/sim_memory.h"
#include "scheduler/scheduler.h"
#include "tests/simulation/checker.h"
#include "tests/simulation/simulation.h"

namespace cellbatch::sim {

class Stock {
 public:
  struct Entry {
    std::shared_ptr<const Model> model;
    std::vector<int32_t> most_rows;  // a request may need, by table
  };

  // All outlive it.
  Stock(const SimulationOptions& options, Scheduler& scheduler, Checker& checker,
        absl::Span<SimMemory* const> memories)
      : options_(options), scheduler_(scheduler), checker_(checker), memories_(memories) {}

  // Of a new model; nobody's, if no device is left.
  void Add();
  // Of open()[at]. REQUIRES: not while either is under way.
  void Remove(size_t at);
  // open()[at] takes over a policy that is drawn, if it looks at the same as the one before it.
  void ChangePolicy(size_t at, uint64_t draw);
  bool changing() const { return changing_; }

  const std::vector<Entry>& open() const { return open_; }
  // The one that is being removed; null: none.
  const Model* closing() const { return closing_.get(); }
  int64_t loads() const { return loads_; }
  int64_t unloads() const { return unloads_; }
  int64_t failed_loads() const { return failed_loads_; }
  int64_t takeovers() const { return takeovers_; }

 private:
  const SimulationOptions& options_;
  Scheduler& scheduler_;
  Checker& checker_;
  const absl::Span<SimMemory* const> memories_;
  std::vector<Entry> open_;
  std::shared_ptr<const Model> closing_;
  bool changing_ = false;
  int next_ = 0;
  int64_t loads_ = 0, unloads_ = 0, failed_loads_ = 0, takeovers_ = 0;
};

}  // namespace cellbatch::sim

#endif  // CELLBATCH_TESTS_SIMULATION_STOCK_H_
