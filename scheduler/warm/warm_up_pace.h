// How fast a lane may warm beside others: a warm-up task keeps its device from everybody else, for as long as it
// takes, and a neighbour's requests are many tasks one after the other. So where any other lane did anything within
// the last second, a turn of warm-up tasks lasts 33 times as long as they take: a request meets one of them rarely,
// and the neighbours keep 97 of 100 parts. Alone, a lane warms as fast as it can.
//
// A task that comes between the tasks of requests delays all of them by all it takes; one that begins while its
// device has nothing to do, only those that arrive meanwhile, and by what is left of it. So a turn's task first waits
// for such a moment, half as long as the turn before had to pause, and then begins in any case. The first one does not
// wait: nobody knows yet what would be long.
//
//   |.. idle? ..|task|........... pause ............|......... never idle .........|task|..........
//   |<-------------- 33 x task -------------------->|<--- 16 x the last one -->|
//
// A pure state machine of the control thread, which looks at the counters now and then.
#ifndef CELLBATCH_SCHEDULER_WARM_WARM_UP_PACE_H_
#define CELLBATCH_SCHEDULER_WARM_WARM_UP_PACE_H_

#include <cstdint>

namespace cellbatch {

inline constexpr int64_t kPauseForWarmUp = 32;  // times what a turn took
inline constexpr int64_t kWaitForIdle = 16;     // times what the turn before it took
inline constexpr int64_t kNeighbourQuietNs =
    1'000'000'000;  // so long without work: it is not there

class WarmUpPace {
 public:
  struct Seen {
    int64_t now_ns;
    bool others_awake;  // requests run or wait in other lanes
    int64_t others_ns;  // device time they had so far
    int64_t
        warm_up_ns;  // device time that warm-up tasks had so far, of all devices; each at least 1
    bool stuck = false;  // nothing else moves, time included: pauses would never end
  };

  struct Leave {
    uint32_t turn = 0;       // ControlMessage::turn; 0: without limit
    bool when_idle = false;  // ControlMessage::when_idle
    bool operator==(const Leave&) const = default;
  };

  // Before the model is loaded: what others do from here on counts.
  WarmUpPace(int num_devices, const Seen& before);

  // The turn that is on, and whether its tasks still wait for an idle device.
  Leave Look(const Seen& seen);

 private:
  const int num_devices_;
  int64_t others_ns_;
  int64_t busy_until_ns_;
  uint32_t turn_ = 0, last_turn_ = 0;
  int64_t turn_began_ns_ = 0;
  int64_t wait_ns_ = 0;     // for an idle device, from then on
  int64_t warm_up_ns_ = 0;  // when the turn began
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_WARM_WARM_UP_PACE_H_
