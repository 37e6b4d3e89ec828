// The virtual time that simulated devices and a test's clock share. It moves only when somebody
// moves it, and what is due on the way happens in order: so a device that runs by itself (SimRuns)
// ends its tasks when time passes their ends, whoever moved it.
//
// Any thread; with something attached, AdvanceTo is called by one at a time (a lock).
#ifndef CELLBATCH_CELLS_DEVICE_SIM_SIM_TIME_H_
#define CELLBATCH_CELLS_DEVICE_SIM_SIM_TIME_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace cellbatch {

// What happens at times that are known before.
class SimEvents {
 public:
  virtual std::optional<int64_t> next_event_ns() const = 0;
  // Time is at, or after, next_event_ns(). Must not move it.
  virtual void RunEvent() = 0;

 protected:
  ~SimEvents() = default;
};

class SimTime {
 public:
  int64_t now_ns() const { return now_.load(std::memory_order_relaxed); }

  // Never backwards.
  void AdvanceTo(int64_t ns) {
    if (num_attached_.load(std::memory_order_relaxed) > 0) RunUntil(ns);
    MoveTo(ns);
  }

  // `events` is called from AdvanceTo until it is detached.
  void Attach(SimEvents* events) {
    const std::lock_guard lock(mutex_);
    attached_.push_back(events);
    num_attached_.store(static_cast<int>(attached_.size()), std::memory_order_relaxed);
  }
  void Detach(SimEvents* events) {
    const std::lock_guard lock(mutex_);
    std::erase(attached_, events);
    num_attached_.store(static_cast<int>(attached_.size()), std::memory_order_relaxed);
  }

 private:
  void MoveTo(int64_t ns) {
    int64_t now = now_ns();
    while (now < ns && !now_.compare_exchange_weak(now, ns, std::memory_order_relaxed)) {
    }
  }
  void RunUntil(int64_t ns) {
    const std::lock_guard lock(mutex_);
    for (;;) {
      SimEvents* first = nullptr;
      int64_t at = ns;
      for (SimEvents* events : attached_) {
        const std::optional<int64_t> next = events->next_event_ns();
        if (!next || *next > at || (first != nullptr && *next == at)) continue;
        first = events;
        at = *next;
      }
      if (first == nullptr) return;
      MoveTo(at);
      first->RunEvent();
    }
  }

  std::atomic<int64_t> now_ = 1'000'000'000;
  std::atomic<int> num_attached_ = 0;
  std::mutex mutex_;
  std::vector<SimEvents*> attached_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_SIM_SIM_TIME_H_
