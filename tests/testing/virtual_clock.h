// A clock that stands where simulated devices put it.
#ifndef CELLBATCH_TESTS_TESTING_VIRTUAL_CLOCK_H_
#define CELLBATCH_TESTS_TESTING_VIRTUAL_CLOCK_H_

#include "cells/device/sim/sim_time.h"
#include "scheduler/clock.h"

namespace cellbatch {

class VirtualClock final : public Clock {
 public:
  int64_t NowNs() const override { return time_.now_ns(); }
  SimTime& time() { return time_; }

 private:
  SimTime time_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_TESTING_VIRTUAL_CLOCK_H_
