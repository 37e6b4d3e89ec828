// How a lane warms: every cell type runs at every batch size to be calibrated, as ordinary tasks
// through every worker's ring (rows that read zeros; no device spares itself their products: BatchedTask::measured), so that nothing is touched for the first time
// by a request, and T(b) is what the worker stamps. From T(b) the knee: max_batch in force is what
// the model configures, else the smallest b whose nodes per second are >= 0.95 of the best seen, and
// whose tasks take 0.1 ms: each task costs its manager 2 to 3 us beside what its nodes cost.
//
// Neighbours steal time in bursts, and a knee from one burst would cost throughput until the next
// start. So rounds pass over all sizes (a burst spoils one round of several sizes, not all rounds of
// one), the least time counts, and no size counts as slower than a larger one.
//
// Tasks that are long hurt whoever shares the device: where no max_batch is configured, their sizes grow
// only until the knee is known (twice its batch brings nothing). What the rounds then measured is asked again: were it noise that
// ended the growth, it goes on.
//
// T(b) belongs to a memory: one of its workers measures, the others only warm, and when that one fails
// another one goes on with what it had. A worker that fails is waited for no more.
//
// A pure state machine: the manager asks for the next task and tells how long it took.
#ifndef CELLBATCH_SCHEDULER_WARM_CALIBRATION_H_
#define CELLBATCH_SCHEDULER_WARM_CALIBRATION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "cells/model.h"
#include "scheduler/scheduler.h"

namespace cellbatch {

inline constexpr int kCalibrationRounds = 4;  // measured tasks of a size; the least counts
// Two sizes running this long: larger are not tried. One, and twice the knee: neither.
inline constexpr int64_t kLongTaskNs = 60'000'000, kLongBesideOthersNs = 4'000'000;
// 0.95, not the 0.9 of reference/performance.md: that share is what a saturated server gives away for
// good, and the next size (8 rows instead of 6 for an LSTM of 1024 units) costs a quarter of a step.
inline constexpr double kKneeShare = 0.95;
inline constexpr int64_t kLeastFullTaskNs = 100'000;
inline constexpr double kPeakShare = 0.98;

// Batch sizes 1, 2, 3, 4, 6, 8, 12, ... up to and with `limit`.
std::vector<int32_t> CalibrationSizes(int32_t limit);

// The smallest measured b with b/T(b) >= 0.95 of the best and T(b) >= kLeastFullTaskNs. None takes that
// long: the largest that is as good as the best, so. 1 if there are no points.
int32_t Knee(absl::Span<const CalibrationPoint> points);

// What is worth while in backlog (batch_limit.h): the smallest measured b, not below the knee, with b/T(b) >= 0.98 of the
// best.
int32_t Peak(absl::Span<const CalibrationPoint> points);

class Calibration {
 public:
  struct Step {
    int type;
    int32_t batch;
  };
  // most_rows: by type, output rows that a task may use. memory_of: by worker. measure: false warms each
  // type once.
  Calibration(const Model& model, std::vector<int32_t> most_rows, int32_t batch_limit,
              absl::Span<const int> memory_of, bool measure);

  // The next task of that worker; none while one is out, or when that worker is warm.
  std::optional<Step> Next(int worker) const;
  void Started(int worker) { workers_[static_cast<size_t>(worker)].out = true; }
  void Finished(int worker, int64_t task_ns);
  // For good, whatever was out. Any time, also before its first task.
  void WorkerFailed(int worker);
  // Every worker that is left is warm, and T(b) is known where one is left.
  bool done() const;
  bool any_worker_left() const;

  // After done(): of the memories that have a worker left, all types of one after the other.
  std::vector<CellTypeCalibration> Results() const;

 private:
  using Points = std::vector<CalibrationPoint>;
  struct Progress {
    int memory = 0;
    bool failed = false;
    bool out = false;
    bool again = false;  // what is out does not count: it measures from its memory's type on
    bool done = false;
    int type = 0;
    int round = 0;     // 0 warms
    size_t first = 0;  // sizes [first, end) of `type` are under way; those before were measured
    size_t end = 0;
    size_t size = 0;
    Points points;  // of `type`
  };
  struct MemoryProgress {
    int measurer = -1;           // the worker that measures; -1: none is left
    std::vector<Points> points;  // by type, as far as measured; the least times
  };

  bool Measures(const Progress& p) const;
  void StartType(Progress& p, int type);
  void Record(Progress& p, int64_t task_ns);
  bool MayEndAt(const Progress& p) const;
  void EndRound(Progress& p);
  void EndType(Progress& p);

  const Model& model_;
  const int32_t batch_limit_;
  const bool measure_;
  std::vector<std::vector<int32_t>> sizes_;  // by type
  std::vector<Progress> workers_;
  std::vector<MemoryProgress> memories_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_WARM_CALIBRATION_H_
