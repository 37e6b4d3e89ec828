// A skeleton without folding what parameters alone make: each node computes it again, in steps that come first, and reads
// it out of its scratch. For tests, which hold the bits of the one against those of the other.
//
//   at load: product 0x64 tail 3 -> out0             product 0x64 tail 3 -> value 2
//   product 0x64 tail 4 -> value 1          ==>      product 0x64 tail 5 -> value 1       a tail loads value 2
//
// Sums that start from what is prepared start from scratch. What no step reads but as it lies (weights of products, tables
// of lookups) and the operands of a product that ends in an argmax stay prepared.
//
// Pure, any thread; load time.
#ifndef CELLBATCH_CELLS_COMPILE_AT_EACH_NODE_H_
#define CELLBATCH_CELLS_COMPILE_AT_EACH_NODE_H_

#include "cells/cell_definition.h"
#include "cells/compile/skeleton.h"

namespace cellbatch {

// REQUIRES: `skeleton` was made of `cell`.
CellSkeleton ComputedAtEachNode(const CellDefinition& cell, CellSkeleton skeleton);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_COMPILE_AT_EACH_NODE_H_
