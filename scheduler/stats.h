// Counters and histograms of the scheduler, recorded without locks: one shard per writing thread,
// relaxed stores by its one writer, summed by whoever reads. About 2 ns an entry.
//
// A Histogram is log-linear: 16 sub-buckets per power of two (relative error <= 1/16 / 2), from 0 to
// 2^42 (ns: 73 minutes). Read as a copy of counts; two copies subtract to a window.
#ifndef CELLBATCH_SCHEDULER_STATS_H_
#define CELLBATCH_SCHEDULER_STATS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "cells/device_kind.h"
#include "cells/ids.h"

namespace cellbatch {

inline constexpr int kSubBucketBits = 4;
inline constexpr int kHistogramBuckets = (42 - kSubBucketBits + 1) << kSubBucketBits;

// Bucket i counts values in [BucketLow(i), BucketLow(i + 1)).
int BucketOf(int64_t value);
int64_t BucketLow(int bucket);

struct HistogramCounts {
  std::array<uint64_t, kHistogramBuckets> buckets = {};
  uint64_t count = 0;  // of all buckets together, also where somebody wrote while they were read
  int64_t sum = 0;
  HistogramCounts& operator+=(const HistogramCounts& other);
  HistogramCounts operator-(const HistogramCounts& earlier) const;
  // Value at or below which `quantile` of the entries lie (upper edge of its bucket); 0 if empty.
  int64_t Quantile(double quantile) const;
};

class Histogram {
 public:
  void Record(int64_t value);    // its one writer
  HistogramCounts Read() const;  // any thread; its sum may be some entries apart from its buckets
  int64_t sum() const { return sum_.load(std::memory_order_relaxed); }  // likewise

 private:
  std::array<std::atomic<uint64_t>, kHistogramBuckets> buckets_ = {};
  std::atomic<int64_t> sum_ = 0;
};

// Of batch sizes: those from the last one on share it (twice the largest --batch-limit).
inline constexpr int kBatchBuckets = 160;
inline int BatchBucketOf(int64_t size) { return std::min(BucketOf(size), kBatchBuckets - 1); }
using BatchTimes = std::array<int64_t, kBatchBuckets>;  // ns, by BatchBucketOf

// What the exporter reads, summed over shards.
struct CellTypeStats {
  std::string name;
  uint64_t tasks = 0;
  uint64_t cells = 0;          // nodes computed
  uint64_t padding = 0;        // of them, those of chains that had ended (GraphBatching)
  uint64_t discarded = 0;      // of stopping chains, computed past the stop or a cancel
  uint64_t stop_steps = 0;     // computed of stopping chains (decoder steps)
  uint64_t overrun = 0;        // of them, past the stop: at most tasks in flight - 1 a chain
  int64_t ready = 0;           // gauge: nodes ready and not submitted
  HistogramCounts batch_size;  // nodes per task
  HistogramCounts task_ns;     // device time per task
  BatchTimes batch_ns = {};    // of it, that of tasks of each size
};

// Of one cell type: how much a lane has run of it.
struct TypeTasks {
  uint64_t tasks = 0;
  int64_t ns = 0;  // device time
};

// Tasks that were formed for one reason (policy/decider.h).
struct DecisionStats {
  std::string reason;
  uint64_t tasks = 0;
};

struct LaneStats {
  ModelId model;
  std::string policy, policy_about;  // what decides, and where it comes from (LaneRules)
  int64_t policies_taken = 0;        // over while it served (Scheduler::SetPolicy)
  std::string join;                  // who joins (LaneRules)
  std::string folded;                // computed at load for each word (LoadedModel::folded)
  int64_t waiting_requests = 0;      // gauge: submitted, not joined
  int64_t waiting_cells = 0;
  int64_t running_requests = 0;           // gauge: joined, not done
  int64_t device_ns = 0;                  // device time of its tasks
  int64_t rows_used = 0, rows_total = 0;  // over its tables
  std::vector<CellTypeStats> types;
  std::vector<DecisionStats> decisions;
};

struct DeviceStats {
  std::string name, details;  // of its DeviceInfo
  DeviceKind kind = DeviceKind::kCpu;
  uint64_t tasks = 0;
  int64_t busy_ns = 0;
  int64_t tasks_in_flight = 0;  // gauge
  bool healthy = true;
  std::string failure = {};  // why it is not; empty while it is
};

// Of `devices`, those that a model of these kinds (Model::devices) lives on.
std::vector<DeviceStats> DevicesOf(DeviceKinds kinds, std::vector<DeviceStats> devices);

// "cuda:0, cpu:0-1".
std::string NamesOf(const std::vector<DeviceStats>& devices);

class SchedulerStats {
 public:
  virtual ~SchedulerStats() = default;
  virtual std::vector<LaneStats> Lanes() const = 0;      // any thread; allocates
  virtual std::vector<DeviceStats> Devices() const = 0;  // any thread; allocates
  // By cell type, over the lanes of that model that there are: without their histograms, some hundred ns a lane.
  virtual std::vector<TypeTasks> TasksOf(ModelId model) const = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_STATS_H_
