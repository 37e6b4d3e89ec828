// The scheduler's idea of time: a steady clock in nanoseconds, real or virtual. Only loops, workers
// (task stamps) and those who make requests read it; the manager never decides by it.
#ifndef CELLBATCH_SCHEDULER_CLOCK_H_
#define CELLBATCH_SCHEDULER_CLOCK_H_

#include <chrono>
#include <cstdint>

namespace cellbatch {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t NowNs() const = 0;  // any thread
};

class SteadyClock final : public Clock {
 public:
  int64_t NowNs() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_CLOCK_H_
