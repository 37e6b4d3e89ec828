// What the control thread asks of the manager: one at a time, and it waits until it came true. What the waiter
// finds out meanwhile (time is up, the neighbours are busy) it says here, too; the manager has no clock.
#ifndef CELLBATCH_SCHEDULER_CONTROL_MESSAGE_H_
#define CELLBATCH_SCHEDULER_CONTROL_MESSAGE_H_

#include <atomic>
#include <cstdint>

namespace cellbatch {

class Lane;
struct LanePolicy;

struct ControlMessage {
  enum class Kind { kOpen, kClose, kStop, kPolicy };
  Kind kind;
  Lane* lane = nullptr;
  LanePolicy* policy = nullptr;  // kPolicy: what decides for the lane from the next decision on

  // The control thread's, while it waits.
  // Waits no more. kOpen: the warm-up ends, the lane is closed. kClose: what still runs is cancelled.
  std::atomic<bool> cut = false;
  // kOpen: a worker may start one warm-up task for each turn; 0: as many as it likes (warm/warm_up_pace.h).
  // kPolicy: which of those that the lane has taken over it is, from 1 on: for a record.
  std::atomic<uint32_t> turn = 0;
  // Not before its device has nothing else to do. Written in front of the turn that it goes with.
  std::atomic<bool> when_idle = false;

  // The manager's.
  std::atomic<int64_t> warm_up_ns =
      0;                // kOpen: device time of the warm-up tasks done so far, each at least 1
  bool opened = false;  // kOpen, once done: false where no device is left, or it was cut
  std::atomic<bool> done = false;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_CONTROL_MESSAGE_H_
