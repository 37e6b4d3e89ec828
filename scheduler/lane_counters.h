// What anyone may read of a lane while it runs. One writer, the manager's thread: relaxed stores, no locked
// instruction; two counters may be one task apart.
#ifndef CELLBATCH_SCHEDULER_LANE_COUNTERS_H_
#define CELLBATCH_SCHEDULER_LANE_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduler/stats.h"

namespace cellbatch {

// A counter's one writer: no locked instruction.
template <typename T>
void AddTo(std::atomic<T>& counter, T value) {
  counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

struct TypeCounters {
  std::atomic<uint64_t> tasks = 0, cells = 0, padding = 0, discarded = 0, stop_steps = 0,
                        overrun = 0;
  Histogram batch_size, task_ns;
  std::array<std::atomic<int64_t>, kBatchBuckets> batch_ns = {};
};

class LaneCounters {
 public:
  struct Gauges {
    int64_t waiting_requests = 0, waiting_cells = 0, running_requests = 0, rows_used = 0;
  };

  explicit LaneCounters(int num_types)
      : types_(static_cast<size_t>(num_types)), ready_(static_cast<size_t>(num_types)) {}

  TypeCounters& type(int type) { return types_[static_cast<size_t>(type)]; }
  const TypeCounters& type(int type) const { return types_[static_cast<size_t>(type)]; }
  void TaskDone(int type, int32_t nodes, int64_t ns);
  int64_t device_ns() const { return device_ns_.load(std::memory_order_relaxed); }

  void SetGauges(const Gauges& gauges);
  Gauges gauges() const;
  // Nodes of that type ready on all workers.
  void SetReady(int type, int64_t nodes) {
    ready_[static_cast<size_t>(type)].store(nodes, std::memory_order_relaxed);
  }
  int64_t ready(int type) const {
    return ready_[static_cast<size_t>(type)].load(std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t> waiting_requests_ = 0, waiting_cells_ = 0, running_requests_ = 0,
                       device_ns_ = 0, rows_used_ = 0;
  std::vector<TypeCounters> types_;
  std::vector<std::atomic<int64_t>> ready_;  // side by side: all are written after each step
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_LANE_COUNTERS_H_
