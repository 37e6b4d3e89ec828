// A sum that a cell type need not begin itself: bias and the products of what the request brings, computed for all steps
// at once by a type of its own (hoisted_model.h) and left in a column that this type's nodes read.
//
//   sum of gate g at step t  =  b[g] + x_t . W[g]                     left in column `at` by the eager type
//                                                  + h_t-1 . U[g]     added here
//
// Plain data. It says in full what the column holds, so that a compiler may start a product there, where it finds the same
// terms at the beginning of one of its chains, or leave it: the cell's definition does not read the column, and means the
// same without.
#ifndef CELLBATCH_CELLS_HOISTED_SUM_H_
#define CELLBATCH_CELLS_HOISTED_SUM_H_

#include <cstdint>
#include <vector>

#include "cells/program/cell_program.h"

namespace cellbatch {

// x . w, of `depth` elements at `source`.
struct HoistedTerm {
  Place source;
  int32_t depth = 0;
  ParameterView w;
  friend bool operator==(const HoistedTerm&, const HoistedTerm&) = default;
};

struct HoistedSum {
  int32_t units = 0;
  std::vector<UnitValues> bias;
  std::vector<HoistedTerm> terms;  // in the order in which they are added
  Place at;                        // a column of an input that the definition does not read
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_HOISTED_SUM_H_
