#include "scheduler/warm/warm_up_pace.h"

#include <algorithm>

namespace cellbatch {

WarmUpPace::WarmUpPace(int num_devices, const Seen& before)
    : num_devices_(std::max(num_devices, 1)),
      others_ns_(before.others_ns),
      busy_until_ns_(before.others_awake ? before.now_ns + kNeighbourQuietNs : before.now_ns) {}

WarmUpPace::Leave WarmUpPace::Look(const Seen& seen) {
  if (seen.others_awake || seen.others_ns != others_ns_) {
    others_ns_ = seen.others_ns;
    busy_until_ns_ = seen.now_ns + kNeighbourQuietNs;
  }
  if (seen.now_ns >= busy_until_ns_) {
    turn_ = 0;
    return {};
  }
  const bool ran = seen.warm_up_ns != warm_up_ns_;
  const int64_t took = (seen.warm_up_ns - warm_up_ns_) / num_devices_;
  const int64_t lasts = seen.now_ns - turn_began_ns_;
  const bool over = ran && (seen.stuck || lasts >= (1 + kPauseForWarmUp) * took);
  if (turn_ != 0 && !over) return {turn_, lasts < wait_ns_ && !seen.stuck};
  wait_ns_ = turn_ != 0 ? kWaitForIdle * took : 0;
  turn_began_ns_ = seen.now_ns;
  warm_up_ns_ = seen.warm_up_ns;
  turn_ = ++last_turn_;
  return {turn_, wait_ns_ > 0 && !seen.stuck};
}

}  // namespace cellbatch
