// Whom a scheduler tells what happens to it, for a record that can be learned from and replayed. Made by whoever makes
// the scheduler, and outlives it.
//
//   callers      Submitted, Extended, Notified      before the manager hears of it
//   takers       Answered                           before the request is its taker's
//   control      Began, LaneMade, PolicyTaken       before the lane's first task
//   manager      tape()                             words in a ring: no lock, no memory, no log (schedule_tape.h)
//
// All but the tape are called on the threads that call the scheduler; they may lock and allocate, and what they cost is
// these threads'. What a recorder has no room for is its own to count.
#ifndef CELLBATCH_SCHEDULER_RECORD_RECORDER_H_
#define CELLBATCH_SCHEDULER_RECORD_RECORDER_H_

#include <cstdint>

#include "scheduler/record/recorded_run.h"
#include "scheduler/record/schedule_tape.h"
#include "scheduler/request.h"

namespace cellbatch {

class Recorder {
 public:
  virtual ~Recorder() = default;

  virtual ScheduleTape& tape() = 0;
  virtual void Began(const RecordedSetup& setup) = 0;
  virtual void LaneMade(const RecordedLane& lane) = 0;
  // Before the manager has it. `number`: from 1 on.
  virtual void PolicyTaken(uint32_t serial, uint32_t number, const RecordedPolicy& policy,
                           const Model& model) = 0;
  // `request` is sealed; its run state is not looked at.
  virtual void Submitted(RequestId id, int lane, uint32_t serial, const Request& request) = 0;
  // Another piece of it is sealed.
  virtual void Extended(RequestId id, const Request& request) = 0;
  virtual void Notified(RequestId id, bool expired, int64_t now_ns) = 0;
  // Its status, times and counts are as its taker will read them; its graph knows where its chains stopped.
  virtual void Answered(RequestId id, const Request& request) = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_RECORD_RECORDER_H_
