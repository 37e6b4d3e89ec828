// A model at operator granularity: each cell type becomes several types of one operator, and requests are unfolded by the
// model's own unfolder and then rewritten, node by node. To compare with, not to serve with (DyNet's way of batching,
// and the trade-off of the JIT paper's Table 1, in one system).
//
//   request --> the model's unfolder --> graph of cells --> rewritten --> graph of operators
//                                        chain L of 3                     3 x { MatMul, Add, MatMul, .., Mul }
//
// Types are DyNet's signatures: nodes with the same operator, the same weights and the same shapes are one type, also
// across cells: all additions of two vectors of one width, all tanh of one width. So there is one table for each type
// and width of column, which request inputs fill too. What is a node and what is free: cells/explode.h.
//
// A chain that stops by what it computes cannot be taken apart (where it ends is known node by node only): such a
// request is refused. One whose stop is a word that cannot come (a decoder with decode_steps) runs to its cap.
#ifndef CELLBATCH_CELLS_EXPLODED_MODEL_H_
#define CELLBATCH_CELLS_EXPLODED_MODEL_H_

#include <memory>

#include "cells/model.h"

namespace cellbatch {

// Operators of one request: some 150 bytes each.
inline constexpr int64_t kMaxOperatorNodes = int64_t{1} << 22;

// REQUIRES: `cells` is valid and has an unfolder. Load time.
std::shared_ptr<Model> ExplodeModel(std::shared_ptr<const Model> cells);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_EXPLODED_MODEL_H_
