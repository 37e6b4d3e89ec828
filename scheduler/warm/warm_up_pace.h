// How fast a lane may warm beside others: a warm-up task keeps its device from everybody else, for as long as it
// takes, and a neighbour's requests are many tasks one after the other. So where any other lane did anything within
// the last second, each turn of warm-up tasks is followed by a pause 32 times as long: a request meets one of them
// rarely, and the neighbours keep 97 of 100 parts. Alone, a lane warms as fast as it can.
//
//   |task|............ 32 x task ............|task|............          the neighbours have the device
//
// A pure state machine of the control thread, which looks at the counters now and then.
#ifndef CELLBATCH_SCHEDULER_WARM_WARM_UP_PACE_H_
#define CELLBATCH_SCHEDULER_WARM_WARM_UP_PACE_H_

#include <cstdint>

namespace cellbatch {

inline constexpr int64_t kPauseForWarmUp = 32;  // times what the turn before it took
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

  // Before the model is loaded: what others do from here on counts.
  WarmUpPace(int num_devices, const Seen& before);

  // The turn that is on (ControlMessage::turn); 0: without limit.
  uint32_t Turn(const Seen& seen);

 private:
  const int num_devices_;
  int64_t others_ns_;
  int64_t busy_until_ns_;
  uint32_t turn_ = 0, last_turn_ = 0;
  int64_t turn_began_ns_ = 0;
  int64_t warm_up_ns_ = 0;  // when the turn began
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_WARM_WARM_UP_PACE_H_
