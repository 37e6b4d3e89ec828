// The most nodes of one task of a cell type on a worker. At the knee of T(b) a task is nearly as efficient as any, and as
// short as that allows. Once the type's queue has stayed longer than the knee for ten tasks, latency is the queue's: what
// shortens it is throughput, and tasks grow to the peak, until one task would do for all that is ready.
//
//   ready   40 70 70 ... 70 (ten)  70  70  70  30  40
//   limit   32 32 32 ... 32        64  64  64  32  32       knee 32, peak 64
//
// The manager's alone.
#ifndef CELLBATCH_SCHEDULER_BATCH_LIMIT_H_
#define CELLBATCH_SCHEDULER_BATCH_LIMIT_H_

#include <cstdint>

namespace cellbatch {

class BatchLimit {
 public:
  static constexpr int32_t kTasksOfBacklog = 10;

  // REQUIRES: 1 <= knee <= peak.
  void Set(int32_t knee, int32_t peak) {
    knee_ = now_ = knee;
    peak_ = peak;
    backlogged_ = 0;
  }
  int32_t knee() const { return knee_; }  // 0: not set
  int32_t now() const { return now_; }

  // A task is about to be formed of so many nodes that are ready.
  void Forming(int32_t ready) {
    if (ready <= knee_) {
      backlogged_ = 0;
      now_ = knee_;
    } else if (backlogged_ < kTasksOfBacklog) {
      ++backlogged_;
    } else {
      now_ = peak_;
    }
  }

 private:
  int32_t knee_ = 0, peak_ = 0, now_ = 0;
  int32_t backlogged_ = 0;  // tasks in a row
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_BATCH_LIMIT_H_
