// What it takes to split a step over the cores of a team, measured at load: helpers of one core complex answer in half a
// microsecond, those of two sockets or of a virtual machine in several, and how long a parked one takes to wake is the
// system's affair (25 to 80 us were seen).
#ifndef CELLBATCH_CELLS_DEVICE_CPU_SPLIT_COSTS_H_
#define CELLBATCH_CELLS_DEVICE_CPU_SPLIT_COSTS_H_

#include <string>

#include "cells/device/cpu/core_team.h"
#include "cells/device/cpu/step_split.h"

namespace cellbatch {

// `per_ns`: as in SplitCosts. The calling thread is the team's caller meanwhile, and has to be where that will compute: on a
// helper's core it would wait for who waits for it. Some 3 ms; where no helper came (somebody has its core) it is as SplitCosts
// says.
SplitCosts MeasureSplitCosts(CoreTeam& team, double per_ns);

// For people: "a step is split from 3.0 us on (a fork takes 0.3), sleeping helpers are woken from 60 us on (one takes 30)".
std::string Describe(const SplitCosts& costs);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_SPLIT_COSTS_H_
