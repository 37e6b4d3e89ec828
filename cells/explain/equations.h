// The equations of a cell as people write them, from its operators alone.
//
//   i = sigmoid(b[0:64] + W[0:64] x + U[0:64] before.h)       ops MATMUL, ADD, SLICE, SIGMOID of the text
//   c = f * before.c + i * g                                  a line each for what is left, for what is read twice,
//   h = o * tanh(c)                                           and for every function of a product
//
// Lines have the names that the definition's text gives its operators (v17 where it has none), an output its column's.
// Slices go down to where the numbers come from, as the compiler takes them (lane_graph.h): W[0:64] are rows of W. W x is a
// product, a * b goes element by element, sum(children).h adds up the rows of all nodes that an input reads.
//
// Pure, any thread. O(operators x slices), at most kMaxEquationViews of them; what is sliced beyond that is not taken apart.
#ifndef CELLBATCH_CELLS_EXPLAIN_EQUATIONS_H_
#define CELLBATCH_CELLS_EXPLAIN_EQUATIONS_H_

#include <string>

#include "cells/cell_definition.h"

namespace cellbatch {

inline constexpr size_t kMaxEquationViews = 4096;

// A line each, what is read before who reads it.
std::string Equations(const CellDefinition& cell);

// How equations write column `column` (of `reads`) of an input: "x", "before.h", "sum(children).h".
std::string ColumnName(const CellDefinition& cell, const Input& input, size_t column);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_EXPLAIN_EQUATIONS_H_
