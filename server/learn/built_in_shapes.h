// Shapes of requests when there is no file of them: of the statistics of the data that the papers were measured on
// (Europarl's and IWSLT's sentences, Stanford's trees, Weibo's and ED-Batch's lattices). Deterministic under a seed.
#ifndef CELLBATCH_SERVER_LEARN_BUILT_IN_SHAPES_H_
#define CELLBATCH_SERVER_LEARN_BUILT_IN_SHAPES_H_

#include <cstdint>
#include <limits>
#include <random>

#include "cells/unfold/request_description.h"
#include "server/learn/request_shape.h"

namespace cellbatch {

// What a shape may have at most: words (characters of a lattice, leaves of a tree, nodes of a graph), and children of a
// word, one at least.
struct ShapeBounds {
  int32_t length = std::numeric_limits<int32_t>::max();
  int64_t children = std::numeric_limits<int64_t>::max();
};

//   words            24 in the mean, most from 5 to 60          target words   a tenth more or fewer
//   spelled words    one in six, 8 characters and two marks     lattices       48 characters, 4 words in 9 characters
//   trees            19 leaves, split anywhere                  heads          each word's among the three before it
// REQUIRES: not kGraph, kTensors.
RequestShape RandomShape(ShapeKind kind, const ShapeBounds& most, std::mt19937_64& random);

// Graphs have no statistics but their model's: what may read what. 20 nodes of any types, each input that nodes fill read
// from one of the eight before it that it can read (zeros now and then), sums from up to three; an output last. `most.children` is not looked at.
RequestShape RandomGraphShape(const RequestDescription& described, const ShapeBounds& most,
                              std::mt19937_64& random);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_LEARN_BUILT_IN_SHAPES_H_
