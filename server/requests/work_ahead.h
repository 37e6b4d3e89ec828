// How much work of one model is in flight, and how fast it goes: whether one more request could
// still be answered before its deadline, or would be computed in vain (serving.md 4.5 (b)). Knows
// no scheduler and no clock.
//
//   work   device time at full batches: cells of each type * T(b_max) / b_max, as measured when the
//          model warmed
//   path   device time of its longest path: so many tasks of a full batch follow each other
//   fill   work / path: the share of a full batch that it takes while it runs; of a chain 1 / b_max
//   pace   wall time for device time: 1 / devices at first; then as measured whenever requests left
//          while batches were full. What else the devices do (other models, copies, the machine's
//          other work) is in it
//
//             full batches             half of what runs is done, on average
//                  |                          |
//   wait = 0 until fill >= devices, then (work in flight - that half) * pace, and at most what
//          taking turns costs
//   end  = wait + path * devices * pace
//
// Of a model with priority levels only what is as urgent or more is before a request. So a server
// that is idle, or whose batches are not full, refuses nobody, nor does one that has no T(b). Any
// thread; a few relaxed atomics a request, none of them the manager's or a worker's.
#ifndef CELLBATCH_SERVER_REQUESTS_WORK_AHEAD_H_
#define CELLBATCH_SERVER_REQUESTS_WORK_AHEAD_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "cells/cell_graph.h"
#include "cells/model.h"
#include "scheduler/scheduler.h"

namespace cellbatch {

// Of one request, in nanoseconds of a device.
struct RequestWork {
  int64_t work_ns = 0;
  int64_t path_ns = 0;
  // Of kTurnNodes of that path: a running chain's turn (SchedulerOptions::chain_turn).
  int64_t turn_ns = 0;
  int64_t turns = 1;  // that it takes
  int32_t level = 0;  // its priority, 0 the most urgent: what is less urgent is not before it
};

class WorkAhead {
 public:
  // T(b) of the model's types in the first memory that it lives in; `devices` that compute it.
  WorkAhead(const Model& model, absl::Span<const CellTypeCalibration> calibration, int devices);

  // Of a sealed graph, what may follow it included; `priority` as in Request. O(subgraphs). No work
  // where nothing was measured.
  RequestWork Of(const CellGraph& graph, int32_t priority) const;
  // The least that any request could be: so that one can be refused before it is decoded.
  RequestWork Least() const;

  void Add(const RequestWork& request);
  // What Add added has left, having done `share` of it: 0 to 1.
  void Remove(const RequestWork& request, double share, int64_t now_ns);

  // Until a request that came now would be done, with `also_ns` of work before it that is not in
  // flight yet. 0: nothing is known against it.
  int64_t EstimateNs(const RequestWork& request, int64_t also_ns = 0) const;

  double pace() const { return pace_.load(std::memory_order_relaxed); }

 private:
  struct Window {  // in which the pace is measured
    int64_t since_ns = 0;
    int64_t retired_ns = 0;
    double least_fill = 0;
  };
  struct InFlight {
    std::atomic<int64_t> work_ns = 0;
    std::atomic<int64_t> fill = 0;  // in kFull-ths of a batch
  };
  struct Sum {
    double work_ns = 0;
    double fill = 0;  // in batches
  };
  Sum UpTo(size_t level) const;
  void Measure(int64_t now_ns);

  const double devices_;
  std::vector<double> task_ns_;  // of a full batch, by CellTypeId; 0: not known
  std::vector<double> cell_ns_;  // of a cell in it
  std::vector<bool> carries_;    // its nodes follow each other
  const int32_t default_level_;
  std::vector<InFlight> levels_;         // the most urgent first
  std::atomic<int64_t> retired_ns_ = 0;  // work done by those that left
  std::atomic<int64_t> turn_ns_ = 0;     // of the latest request
  std::atomic<double> pace_;
  std::atomic_flag measuring_;
  Window window_;  // who measures
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_WORK_AHEAD_H_
