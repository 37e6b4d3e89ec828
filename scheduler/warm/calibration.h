// How a lane warms: every cell type runs at every batch size to be calibrated, as ordinary tasks
// through every worker's ring (of row 0; no device spares itself anything for its zeros: BatchedTask::measured), so that nothing is touched for the first time
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
// What T(b) was at an earlier start may be known (calibration_shelf.h). It is warmed as far as it goes, and then confirmed
// instead of measured, by the same rounds over a few sizes: those that say where the knee is.
//
//   kept     1 2 3 4 6 8 12 16 24 32 48 64       knee 16, best 48
//   warm     1 2 3 4 6 8 12 16 24 32 48 64
//   rounds   1           12 16       48 64       each 7/8 to 3/2 of what was kept, the knee still there: that is T(b), as it was kept
//
// Neighbours make tasks slower and never faster: so a time that cannot be reached is another machine's, and a time that is
// beaten, clearly or so that the knee moves, was a neighbour's. Either way the type is measured in full; of times that were
// beaten the least of both counts, so that T(b) gets better from start to start and b_max stands still. What is confirmed is
// taken as it is: were the few sizes that were looked at corrected alone, they would look better than their neighbours, and
// move the peak. What is kept for the next start is never slower than what was (LeastKnown): a start that was disturbed does
// not unseat a quiet one's, and a machine that has become slower for good is measured at every start.
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
// What a task costs beside T(b): rows copied in and out, the manager's step, helpers that come late (scheduler/README.md).
inline constexpr int64_t kBesideTaskNs = 5'000;
// Of a time that is known already: what is measured lies between so many times it, or it is not believed.
inline constexpr double kLeastOfKept = 0.875, kMostOfKept = 1.5;
// What is measured then may move the knee by so much of the best rate; beyond it is not believed.
inline constexpr double kKneeMargin = 0.03;
// Rounds in which it may be reached: what is disturbed for so long would be measured no better.
inline constexpr int kMostConfirmingRounds = 16;
// Give or take so much: of tasks of microseconds it is what a clock and a wake-up cost.
inline constexpr int64_t kKeptSlackNs = 5'000;

// Batch sizes 1, 2, 3, 4, 6, 8, 12, ... up to and with `limit`.
std::vector<int32_t> CalibrationSizes(int32_t limit);

// The smallest measured b with b/T(b) >= 0.95 of the best and T(b) >= kLeastFullTaskNs. None takes that
// long: the largest that is as good as the best, so. 1 if there are no points.
int32_t Knee(absl::Span<const CalibrationPoint> points);

// What is worth while in backlog (batch_limit.h): the smallest measured b, not below the knee, with b/(T(b) + kBesideTaskNs)
// >= 0.98 of the best.
int32_t Peak(absl::Span<const CalibrationPoint> points);

// What is in force of a type: what its model configures, else what T(b) says, and no less than the model wants then. No points:
// batch_limit.
struct BatchSizes {
  int32_t max_batch, peak_batch;
};
BatchSizes SizesInForce(const CellType& type, absl::Span<const CalibrationPoint> points,
                        int32_t batch_limit);

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

  // What T(b) of a type in a memory was before; what no calibration of these sizes can have been is not looked at. Before
  // the first task.
  void Know(int memory, CellTypeId type, std::vector<CalibrationPoint> points);
  // All that may be measured of a type, ascending; at least one.
  absl::Span<const int32_t> sizes(CellTypeId type) const {
    return sizes_[static_cast<size_t>(type.value())];
  }
  int num_memories() const { return static_cast<int>(memories_.size()); }
  // Which worker measures there; -1: none is left.
  int measurer(int memory) const { return memories_[static_cast<size_t>(memory)].measurer; }

  // The next task of that worker; none while one is out, or when that worker is warm.
  std::optional<Step> Next(int worker) const;
  void Started(int worker) { workers_[static_cast<size_t>(worker)].out = true; }
  void Finished(int worker, int64_t task_ns);
  // For good, whatever was out. Any time, also before its first task.
  void WorkerFailed(int worker);
  // Every worker that is left is warm, and T(b) is known where one is left.
  bool done() const;
  bool any_worker_left() const;

  // After done(): what to keep of T(b) there. What was measured, or where what was known could not be reached the least of both.
  std::vector<CalibrationPoint> LeastKnown(int memory, CellTypeId type) const;

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
    // Not empty: kept times are being confirmed, and [first, end) count these, sizes of `type`.
    std::vector<size_t> confirmed;
  };
  struct MemoryProgress {
    int measurer = -1;           // the worker that measures; -1: none is left
    std::vector<Points> points;  // by type, as far as measured; the least times
    std::vector<Points> known;   // by type, from before; empty: nothing, or it is not believed
    std::vector<Points> beaten;  // by type: known, and not believed because some of it was beaten
    std::vector<Points> unreached;  // by type: likewise because some of it could not be reached
    std::vector<bool> kept;         // by type, as far as measured: known, and confirmed
  };

  bool Measures(const Progress& p) const;
  // Null: it measures what it finds.
  const Points* Known(const Progress& p) const;
  void StartType(Progress& p, int type);
  size_t SizeOf(const Progress& p) const {
    return p.confirmed.empty() ? p.size : p.confirmed[p.size];
  }
  void Record(Progress& p, int64_t task_ns);
  bool MayEndAt(const Progress& p) const;
  void BeginToConfirm(Progress& p, const Points& known);
  bool AllReached(const Progress& p) const;
  void EndConfirming(Progress& p);
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
