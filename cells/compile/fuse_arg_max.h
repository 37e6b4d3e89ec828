// An argmax over a product's results that nobody else reads becomes the product's end: the row of them is not stored, nor
// is there scratch for it. A decoder's step over 30,000 words then keeps the best word so far of each node instead of
// 30,000 floats of it.
//
//   product 1xV ... -> value 1                       product 1xV ... largest -> out2
//   argmax value 1 [1] -> out2               ==>
//
// Only where the tail has no other column, so that the product has no other result. Logits that are also an output, or
// that a softmax reads, stay. Pure; load time. Part of skeleton.cc.
#ifndef CELLBATCH_CELLS_COMPILE_FUSE_ARG_MAX_H_
#define CELLBATCH_CELLS_COMPILE_FUSE_ARG_MAX_H_

#include "cells/compile/skeleton.h"
#include "cells/program/program_limits.h"

namespace cellbatch {

// Nothing where the device cannot do it (limits.arg_max_of_product).
void FuseArgMax(CellSkeleton& skeleton, const ProgramLimits& limits);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_COMPILE_FUSE_ARG_MAX_H_
