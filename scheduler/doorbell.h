// How a loop that found nothing to do sleeps, and is woken by whoever gives it something.
//
//   sleeper: Prepare -> look for work once more -> Wait (or Cancel)      waker: publish -> Ring
//
// Both sides change the one word by locked instructions, so one of the two sees the other: either
// the second look finds the work, or Ring finds the sleeper. Ring on someone awake costs that one
// instruction; waking costs a system call (about 13 us for the waker here: reference/performance.md).
// Any number of wakers, one sleeper.
#ifndef CELLBATCH_SCHEDULER_DOORBELL_H_
#define CELLBATCH_SCHEDULER_DOORBELL_H_

#include <atomic>
#include <cstdint>

namespace cellbatch {

class Doorbell {
 public:
  enum class Sleep : uint32_t {
    kForAnything = 1,
    kForUrgent = 2,  // Ring(false) lets it sleep: what came can wait for the next urgent ring
  };

  void Prepare(Sleep sleep) { word_.exchange(static_cast<uint32_t>(sleep)); }
  void Cancel() { word_.exchange(kAwake); }
  // Sleeps until rung, or `at_most_ns` are over (< 0: for ever). Returns awake.
  void Wait(int64_t at_most_ns);

  // Somebody who knows better what the sleeper may be woken for. Any thread, one at a time. True: it may be woken for more
  // than before, so that work may lie there that nobody rang for; the caller looks.
  bool Change(Sleep to) {
    const Sleep other = to == Sleep::kForUrgent ? Sleep::kForAnything : Sleep::kForUrgent;
    if (word_.load(std::memory_order_relaxed) != static_cast<uint32_t>(other)) return false;
    auto from = static_cast<uint32_t>(other);
    return word_.compare_exchange_strong(from, static_cast<uint32_t>(to)) &&
           to == Sleep::kForAnything;
  }

  // Any thread, after its work is published.
  void Ring(bool urgent = true) {
    const uint32_t seen = word_.fetch_or(0);
    if (seen != kAwake && (urgent || seen == static_cast<uint32_t>(Sleep::kForAnything))) Wake();
  }

 private:
  static constexpr uint32_t kAwake = 0;
  void Wake();

  alignas(64) std::atomic<uint32_t> word_ = kAwake;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_DOORBELL_H_
