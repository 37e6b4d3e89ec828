// How a lane warms: every cell type runs at every batch size to be calibrated, as ordinary tasks
// through every worker's ring (rows that read zeros), so that nothing is touched for the first time
// by a request, and T(b) is what the worker stamps. From T(b) the knee: max_batch in force is what
// the model configures, else the smallest b whose nodes per second are >= 0.95 of the best seen, and
// whose tasks take 0.1 ms: each task costs its manager 2 to 3 us beside what its nodes cost.
//
// Neighbours steal time in bursts, and a knee from one burst would cost throughput until the next
// start. So rounds pass over all sizes (a burst spoils one round of several sizes, not all rounds of
// one), the least time counts, and no size counts as slower than a larger one.
//
// A pure state machine: the manager asks for the next task and tells how long it took.
#ifndef CELLBATCH_SCHEDULER_CALIBRATION_H_
#define CELLBATCH_SCHEDULER_CALIBRATION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cells/model.h"
#include "scheduler/scheduler.h"

namespace cellbatch {

inline constexpr int kCalibrationRounds = 4;  // measured tasks of a size; the least counts
inline constexpr int64_t kLongTaskNs =
    60'000'000;  // two sizes running this long: larger are not tried
// 0.95, not the 0.9 of reference/performance.md: that share is what a saturated server gives away for
// good, and the next size (8 rows instead of 6 for an LSTM of 1024 units) costs a quarter of a step.
inline constexpr double kKneeShare = 0.95;

// Batch sizes 1, 2, 3, 4, 6, 8, 12, ... up to and with `limit`.
std::vector<int32_t> CalibrationSizes(int32_t limit);
inline constexpr int64_t kLeastFullTaskNs = 100'000;

// The smallest measured b with b/T(b) >= 0.95 of the best and T(b) >= kLeastFullTaskNs. None takes that
// long: the largest that is as good as the best, so. 1 if there are no points.
int32_t Knee(const std::vector<CalibrationPoint>& points);

class Calibration {
 public:
  struct Step {
    int type;
    int32_t batch;
  };
  // most_rows: by type, output rows that a task may use. measure: false warms each type once.
  Calibration(const Model& model, std::vector<int32_t> most_rows, int32_t batch_limit,
              int num_workers, bool measure);

  // The next task of that worker; none while one is out, or when that worker is warm.
  std::optional<Step> Next(int worker) const;
  void Started(int worker) { workers_[static_cast<size_t>(worker)].out = true; }
  void Finished(int worker, int64_t task_ns);
  void WorkerFailed(int worker) {
    workers_[static_cast<size_t>(worker)].done = true;
    workers_[static_cast<size_t>(worker)].out = false;
  }
  bool done() const;

  // After done(): the first worker's figures.
  std::vector<CellTypeCalibration> Results() const;

 private:
  struct Progress {
    int type = 0;
    size_t size = 0;
    size_t num_sizes = 0;  // of `type`, as far as round 0 found them short enough
    int round = 0;         // 0 warms
    bool out = false;
    bool done = false;
    std::vector<std::vector<CalibrationPoint>> points;  // by type; the least times so far
  };
  void StartType(Progress& p);

  const Model& model_;
  const int32_t batch_limit_;
  const bool measure_;
  std::vector<std::vector<int32_t>> sizes_;  // by type
  std::vector<Progress> workers_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_CALIBRATION_H_
