// A model whose recurrent cells do not multiply what the request brings at each step: a type of its own does that, for many
// steps at once, and the steps start from what it left (hoist.h). Requests are unfolded by the model's own unfolder and
// then rewritten:
//
//   X [T] ----> chain L of T           X ----> eager 0 ----------> L 0
//                                        \                 after  /  | carry
//                                         +--> eager 1 .. 48 <---+   v
//                                                    +----------> L 1 .. 48       and so on
//
// The first step has an eager part of its own, and that of the next steps waits until it was submitted, so that nobody's
// first step waits for the rest of a sequence, and nobody at all for all of a long one. A chain is cut there, and so is
// whatever reads it step by step. Bits are those of the model as it was.
//
// It costs a row of sums a step (4H floats for an LSTM, counted as rows are), a node and a link more a step, and one more
// pass over those sums. It pays where a step's time is reading weights: few rows in a batch, weights beyond the caches.
#ifndef CELLBATCH_CELLS_HOISTED_MODEL_H_
#define CELLBATCH_CELLS_HOISTED_MODEL_H_

#include <cstdint>
#include <memory>

#include "cells/model.h"
#include "cells/program/program_limits.h"

namespace cellbatch {

// Steps whose eager part comes first, and of each that follows: full row blocks, of 6 or of 8.
inline constexpr int32_t kFirstHoistedSteps = 1, kHoistedSteps = 48;

struct HoistRule {
  int64_t least_multiply_adds = 0;  // that a step must save
  ProgramLimits limits;             // of the device that will run it
};

// Null: no type has enough to hoist. REQUIRES: `cells` is valid and has an unfolder; its graphs do not grow (they would be
// refused). Load time.
std::shared_ptr<Model> HoistModel(std::shared_ptr<const Model> cells, const HoistRule& rule);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_HOISTED_MODEL_H_
