// What a served model's world was, read off what its server recorded: who came when, what tasks took, what the scheduler
// took beside them. So another policy, other devices, another rate can be played instead of tried on users.
//
//   tape    warm-up tasks     -->  T(b) of each type, the largest batches in force
//           tasks of requests -->  how much longer they took, size by size, and when
//           gaps between them -->  where requests were out: manager and worker, a task; where none was: waking
//   requests                  -->  arrivals, shapes, and the latencies that were served
//
// What else ran on the machine is seen where it slowed tasks down, or held one, or the scheduler between two, up by a
// millisecond or more (a stall): the world is as slow, and stalls, when that machine did. One thread; O(the record).
#ifndef CELLBATCH_SCHEDULER_OFFLINE_WORLD_RECORDED_WORLD_H_
#define CELLBATCH_SCHEDULER_OFFLINE_WORLD_RECORDED_WORLD_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/offline/world/serving_world.h"
#include "scheduler/record/recorded_run.h"
#include "scheduler/request_block.h"

namespace cellbatch {

struct RecordedWorld {
  std::shared_ptr<const Model> model;
  PolicySpec policy;          // that decided, at first
  size_t policies_taken = 0;  // over after that, while it was recorded
  JoinSpec join;
  TaskCosts costs;       // as served, the scheduler's part of each task included
  WorldOptions options;  // devices, tasks in flight, guard, waking, spread
  int64_t task_overhead_ns = 0;
  int64_t input_ns = 0;           // from a request's first byte to its submission, the median
  MakeGraph make;                 // borrows the run
  std::vector<Arrival> arrivals;  // from the first on
  // Of each: from its first byte to the end of its last task.
  std::vector<int64_t> served_ns;
  size_t left_out = 0;  // requests that failed, were cancelled, grew, or do not come out as a graph
  // Of the model's, those that another version of it had, or the same before it was loaded again.
  size_t of_other_lanes = 0;
};

struct RecordedPart {
  std::string model;  // by name; empty: the only one
  // Of requests that were received then, on the server's steady clock.
  int64_t from_ns = 0, to_ns = std::numeric_limits<int64_t>::max();
};

// NOT_FOUND: no such model, or none of its requests. FAILED_PRECONDITION: the record has several models and none is named,
// policies or rules of joining made by code, or a cell type that was never warmed.
absl::StatusOr<RecordedWorld> WorldOfRecord(const RecordedRun& run, const RecordedPart& part);

inline constexpr int kMostWorldDevices = kMaxWorkers;  // as a scheduler takes no more

// What the world says of the served latencies: arrivals `times` as fast, that policy; from the first byte to the last
// task's end, as served_ns. REQUIRES: 1 to kMostWorldDevices devices; MakeRules takes the policy, beside the recorded join.
WorldReport WhatIf(const RecordedWorld& recorded, const PolicySpec& policy, double times,
                   int devices);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_WORLD_RECORDED_WORLD_H_
