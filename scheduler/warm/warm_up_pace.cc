#include "scheduler/warm/warm_up_pace.h"

#include <algorithm>

namespace cellbatch {

WarmUpPace::WarmUpPace(int num_devices, const Seen& before)
    : num_devices_(std::max(num_devices, 1)),
      others_ns_(before.others_ns),
      busy_until_ns_(before.others_awake ? before.now_ns + kNeighbourQuietNs : before.now_ns) {}

uint32_t WarmUpPace::Turn(const Seen& seen) {
  if (seen.others_awake || seen.others_ns != others_ns_) {
    others_ns_ = seen.others_ns;
    busy_until_ns_ = seen.now_ns + kNeighbourQuietNs;
  }
  if (seen.now_ns >= busy_until_ns_) return turn_ = 0;
  const bool ran = seen.warm_up_ns != warm_up_ns_;
  const int64_t took = (seen.warm_up_ns - warm_up_ns_) / num_devices_;
  const bool over =
      ran && (seen.stuck || seen.now_ns - turn_began_ns_ >= (1 + kPauseForWarmUp) * took);
  if (turn_ != 0 && !over) return turn_;
  turn_began_ns_ = seen.now_ns;
  warm_up_ns_ = seen.warm_up_ns;
  return turn_ = ++last_turn_;
}

}  // namespace cellbatch
