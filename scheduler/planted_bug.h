// Bugs that a scheduler like this one tends to have, to be planted on purpose: a simulation is
// trusted when it catches each of them (tests/simulation). Nothing but SchedulerOptions::planted_bug
// brings one to life, and nothing but that test sets it.
#ifndef CELLBATCH_SCHEDULER_PLANTED_BUG_H_
#define CELLBATCH_SCHEDULER_PLANTED_BUG_H_

#include <cstdint>

namespace cellbatch {

enum class PlantedBug : uint8_t {
  kNone,
  kReadsOwnTask,               // a reader runs in its predecessor's own task
  kStealIgnoresPin,            // a thief takes what may follow elsewhere only after a signal
  kRowsFreedAtSubmission,      // rows go back when the last node is submitted, not when it is done
  kRowsFreedAtStop,            // ... at the stop, with speculative tasks still queued
  kRowsFreedAtCancel,          // ... at a cancel, with tasks in flight
  kStopRingTooShort,           // a graph sealed for fewer tasks in flight than there are is taken
  kPinDropped,                 // of two workers' pins the earlier one is forgotten
  kOlderPinKept,               // of two pins on one worker the older one is kept
  kSwapRemoveForgetsPosition,  // a chain that moves in the dense arrays keeps its old position
  kCopyInLate,                 // the request's rows are copied in one task after they are read
  kSumsReordered,              // links of a sum are added in another order
  kLeavesAfterOneSink,         // a request leaves when one of its two sinks is done
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_PLANTED_BUG_H_
