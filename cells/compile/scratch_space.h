// Where in scratch each value lies: those that are never needed by the same step share space.
//
//   step      0 1 2 3           scratch
//   value 0   +-+                 0 .. 15    value 0, then value 2, which is made when nobody reads value 0 any more
//   value 1     +---+            16 .. 31    value 1
//   value 2       +-+
//
// Colouring of intervals: each run takes the lowest place that is free while it lives, in the plan's order; or, where that
// takes less space, in the order in which steps make them, the plan's among equals. Runs that a product reads in one piece
// stay one piece. A value that a step reads and one that it makes never share: every core reads all of the first while
// others store the second.
//
// Pure, any thread; load time, O(values^2).
#ifndef CELLBATCH_CELLS_COMPILE_SCRATCH_SPACE_H_
#define CELLBATCH_CELLS_COMPILE_SCRATCH_SPACE_H_

#include <cstdint>
#include <vector>

#include "cells/compile/skeleton.h"

namespace cellbatch {

// Values that lie behind each other, first to last.
using ScratchRun = std::vector<int32_t>;

struct ScratchSpace {
  std::vector<int64_t>
      offset;  // by value: elements from the start of a node's scratch; of no meaning if no step uses it
  int64_t width = 0;  // elements of a node
};

// `runs`: every value once, in the plan's order. Each value begins at a multiple of `alignment`.
ScratchSpace PlaceScratch(const CellSkeleton& skeleton, const std::vector<ScratchRun>& runs,
                          int alignment);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_COMPILE_SCRATCH_SPACE_H_
