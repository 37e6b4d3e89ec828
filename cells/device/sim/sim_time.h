// The virtual time that simulated devices and a test's clock share. It moves only when somebody
// moves it. Any thread.
#ifndef CELLBATCH_CELLS_DEVICE_SIM_SIM_TIME_H_
#define CELLBATCH_CELLS_DEVICE_SIM_SIM_TIME_H_

#include <atomic>
#include <cstdint>

namespace cellbatch {

class SimTime {
 public:
  int64_t now_ns() const { return now_.load(std::memory_order_relaxed); }
  // Never backwards.
  void AdvanceTo(int64_t ns) {
    int64_t now = now_ns();
    while (now < ns && !now_.compare_exchange_weak(now, ns, std::memory_order_relaxed)) {
    }
  }

 private:
  std::atomic<int64_t> now_ = 1'000'000'000;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_SIM_SIM_TIME_H_
