// The definition of correct: any cell, in double precision, one node at a time, by the book. Slow
// and obvious; compiled cells agree with it within the bound of design.md (Numbers). For tests, for
// load-time checks, and as the answer to "what does this operator mean?".
//
// A row is its columns, each a vector of doubles (int32 values are exact in a double). Pure, any
// thread; allocates.
#ifndef CELLBATCH_CELLS_KERNELS_REFERENCE_INTERPRETER_H_
#define CELLBATCH_CELLS_KERNELS_REFERENCE_INTERPRETER_H_

#include <vector>

#include "absl/types/span.h"
#include "cells/cell_type.h"

namespace cellbatch {

using ColumnValues = std::vector<double>;
using RowValues = std::vector<ColumnValues>;

// One node: `inputs` by InputId, each the columns that input reads, in that order (sums already
// summed). Answers the row the node leaves, by output. REQUIRES: weights with the parameters'
// shapes (Model::Validate), inputs with the columns' widths.
RowValues InterpretNode(const CellDefinition& cell, const Weights& weights,
                        absl::Span<const RowValues> inputs);

// What an input reads where no node is: zeros.
RowValues ZeroRow(const Input& input);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_KERNELS_REFERENCE_INTERPRETER_H_
