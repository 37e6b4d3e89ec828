// A thread that steps something until it is told to stop: busy while there is work, spinning a
// little when there is none, then asleep on its doorbell. The only threads, clocks and waits of the
// scheduler are here and in Scheduler's control calls.
#ifndef CELLBATCH_SCHEDULER_LOOP_H_
#define CELLBATCH_SCHEDULER_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "scheduler/doorbell.h"

namespace cellbatch {

class Loop {
 public:
  struct Body {
    std::function<bool()> step;  // true: it did work
    // How it may sleep when nothing is to be done; kBusy: something is under way, look again.
    enum class Idle { kForAnything, kForUrgent, kBusy };
    std::function<Idle()> idle;
  };

  // `bell` outlives the loop and is rung whenever step might find work.
  Loop(std::string name, Body body, Doorbell& bell, int64_t spin_ns);
  ~Loop() { Stop(); }

  // Ends the thread after its current step. Idempotent.
  void Stop();

 private:
  void Run();
  bool SpinUntilWork();

  const Body body_;
  Doorbell& bell_;
  const int64_t spin_ns_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_LOOP_H_
