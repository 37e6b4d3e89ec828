// What steps take that are no multiply-adds of products, or take beside those: in the time of so many multiply-adds of one core at
// its peak, roughly. By this a step is split over the cores of a team (step_split.h); no bit of any result depends on it.
//
// Figures are of an AVX-512 Xeon, 100 multiply-adds a ns: one operation of a tail takes what a multiply-add does, a number
// that comes from L2 or L3 and is rounded what 16 do. What takes long must not count as little: it would be left to one
// core while the others wait (README.md, Cores). Plain functions; any thread.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_STEP_COSTS_H_
#define CELLBATCH_CELLS_DEVICE_CPU_STEP_COSTS_H_

#include <cstdint>

#include "cells/precision.h"
#include "cells/program/cell_program.h"

namespace cellbatch {

// A float that is read and added to another; that is read and written elsewhere.
inline constexpr int64_t kAddCost = 4, kCopyCost = 8;

// Of one unit of one row.
int64_t TailCost(const TailProgram& tail);

// Of one row.
int64_t PlainStepCost(const PlainStep& step);

// Of one number that a product reads. REQUIRES: kBf16 or kFp32Split.
int64_t RoundingCost(Precision precision);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_STEP_COSTS_H_
