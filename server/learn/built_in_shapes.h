// Shapes of requests when there is no file of them: of the statistics of the data that the papers were measured on
// (Europarl's and IWSLT's sentences, Stanford's trees, Weibo's and ED-Batch's lattices). Deterministic under a seed.
#ifndef CELLBATCH_SERVER_LEARN_BUILT_IN_SHAPES_H_
#define CELLBATCH_SERVER_LEARN_BUILT_IN_SHAPES_H_

#include <cstdint>
#include <random>

#include "server/learn/request_shape.h"

namespace cellbatch {

//   words            24 in the mean, most from 5 to 60          target words   a tenth more or fewer
//   spelled words    one in six, 8 characters and two marks     lattices       48 characters, 4 words in 9 characters
//   trees            19 leaves, split anywhere                  heads          each word's among the three before it
RequestShape RandomShape(ShapeKind kind, std::mt19937_64& random);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_LEARN_BUILT_IN_SHAPES_H_
