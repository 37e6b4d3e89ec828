// A cell with more columns that no later step reads: projections, softmaxes, labels over what it computes, as a tagger's
// cell would have them. For tests of what is deferred.
#ifndef CELLBATCH_TESTS_TESTING_HEADED_CELL_H_
#define CELLBATCH_TESTS_TESTING_HEADED_CELL_H_

#include <cstdint>

#include "cells/cell_definition.h"

namespace cellbatch::testing {

// `cell`, and after its columns FP32 "y" and, by the seed, FP32 "z" and INT32 "best": of operators drawn at random over
// any of its values. Of the seed alone.
CellDefinition WithHeads(const CellDefinition& cell, uint64_t seed);

}  // namespace cellbatch::testing

#endif  // CELLBATCH_TESTS_TESTING_HEADED_CELL_H_
