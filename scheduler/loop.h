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
    enum class Idle { kForAnything, kForUrgent, kBusy };  // kBusy: as Spin::nap_ns says
    std::function<Idle()> idle;
  };

  // How long it looks around before it parks, and whether it lets others run between its looks: on the only core whoever
  // would bring work waits for it. (Where there are more it does not: a thread that yields to a long one is not woken.)
  // While something is under way elsewhere (kBusy) it never parks: nobody would ring. It looks again at once, or, where
  // cores are few, after a nap of that long (and the system's timer slack, 50 us).
  struct Spin {
    int64_t ns = 0;
    bool yields = false;
    int64_t nap_ns = 0;
  };
  // So many loops: they nap where not all of them, and somebody else, have a core.
  static Spin SpinFor(int64_t ns, size_t loops, int cores) {
    return {ns, cores == 1, loops < static_cast<size_t>(cores) ? 0 : 20'000};
  }

  // `bell` outlives the loop and is rung whenever step might find work.
  Loop(std::string name, Body body, Doorbell& bell, Spin spin);
  ~Loop() { Stop(); }

  // Ends the thread after its current step. Idempotent.
  void Stop();

 private:
  void Run();
  bool SpinUntilWork();

  const Body body_;
  Doorbell& bell_;
  const Spin spin_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_LOOP_H_
