// Which embedding tables are multiplied with their input matrix once, at load.
//
// A product whose first segment is a table row, x = E[token], can start from row `token` of E·W + bias instead: the
// input half of the product becomes the load of one row of accumulators. Because sums run bias, table row, the rest,
// that row holds the very bits the plain path has at that point.
// Folded rows are wide (4H floats for an LSTM), so memory is spent where it saves most time per byte.
// Pure, load time. (performance.md §0 item 5.)
#ifndef CELLBATCH_CELLS_COMPILE_FOLD_H_
#define CELLBATCH_CELLS_COMPILE_FOLD_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "cells/program/cell_program.h"

namespace cellbatch {

// Step `step` of program `program` starts from a folded table of this size.
struct Fold {
  int program = 0;
  int step = 0;
  int64_t bytes = 0;
  friend bool operator==(const Fold&, const Fold&) = default;
};

// The folds that fit into `budget_bytes` together, best time saved per byte first. `row_bytes`: of one row of
// accumulators as the device stores folded tables.
std::vector<Fold> PlanFolds(absl::Span<const CellProgram> programs, int64_t budget_bytes,
                            absl::FunctionRef<int64_t(const ProductStep&)> row_bytes);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_COMPILE_FOLD_H_
