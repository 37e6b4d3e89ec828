// A model whose nodes batch only with nodes of as many predecessors: how a system batches that has no inputs of any
// number of rows (kSum), in which a child-sum TreeLSTM's node of two children and one of three are two cells. To
// compare with: the third column of the JIT paper's Table 1.
//
// Each type that sums rows becomes several, which differ in name only: for 0, 1, .. `most_arity` - 1 rows summed (by
// all its summing inputs together), and the type itself for more. Requests are unfolded by the model's own unfolder.
#ifndef CELLBATCH_CELLS_ARITY_SPLIT_H_
#define CELLBATCH_CELLS_ARITY_SPLIT_H_

#include <memory>

#include "cells/model.h"

namespace cellbatch {

// REQUIRES: `cells` is valid and has an unfolder; its graphs do not grow (they would be refused). Load time.
std::shared_ptr<Model> SplitByArity(std::shared_ptr<const Model> cells, int32_t most_arity);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_ARITY_SPLIT_H_
