// Which blocks of a step each thread of a team takes: first those of its home range, which are the same part of the work step
// after step, so that the weights it read last time are still in its own cache; then, where a thread has fallen behind, the
// blocks that it would come to last.
//
//   opened   [ step 7 | from the first | 16 blocks ]             the caller opens a step with one store
//   words    [ step 7 | 2..8 ]      [ step 7 | 9..12 ]  ...      what is left of each thread's range
//                     ^ its own thread          ^ others
//
// A word whose step is an earlier one stands for a whole range: nobody writes to words until their first block is
// taken, and a thread with its own cache line alone. What a thread that does not run has not taken, others take; only the
// block that it is in the middle of is waited for.
//
// Open: one thread, when all blocks of the step before are done. The rest: any thread, lock-free. Allocates nothing
// after construction.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_HOME_RANGES_H_
#define CELLBATCH_CELLS_DEVICE_CPU_HOME_RANGES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace cellbatch {

class HomeRanges {
 public:
  static constexpr int kMostBlocks = 65535;  // of a step

  // With which block of its range each thread starts.
  enum class From : uint8_t { kFirst, kLast };

  // Numbers wrap.
  struct Step {
    uint32_t number = 0;
    int32_t blocks = 0;
    From from = From::kFirst;
  };

  // `before`: the number before the first step's.
  HomeRanges(int threads, uint32_t before);

  int threads() const { return threads_; }

  // The next step. REQUIRES: 0 <= blocks <= kMostBlocks.
  void Open(int blocks, From from = From::kFirst);
  // The last one opened.
  Step Opened() const;

  // A block of `thread`'s range in `step`: the one it comes to next, for that thread, or the one it would come to last, for
  // others. -1: none is left (also of a step that is over).
  int TakeNext(const Step& step, int thread) {
    return Take(step, thread, step.from == From::kLast);
  }
  int TakeFarthest(const Step& step, int thread) {
    return Take(step, thread, step.from == From::kFirst);
  }

 private:
  // Each on a cache line of its own, by distance rather than alignment.
  struct Word {
    std::atomic<uint64_t> value;
    std::byte apart[120];
  };

  int Take(const Step& step, int thread, bool last);

  const int threads_;
  const std::unique_ptr<Word[]> words_;
  std::byte before_opened_[120];
  std::atomic<uint64_t> opened_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_HOME_RANGES_H_
