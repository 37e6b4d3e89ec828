// What is computed once, at load, for each word of a table, instead of at run time for each node that has the word.
//
//   sums        a product whose first segment is a table row, x = E[token], starts from row `token` of E·W + bias: the
//               input half of the product becomes the load of one row of accumulators. Because sums run bias, table
//               row, the rest, that row holds the very bits the plain path has at that point.
//   whole cell  what a node leaves depends on its token alone (a leaf of a tree): it becomes a copy of row `token` of a
//               table of what the cell left for each token, made by the very steps that would run.
//
// Folded rows are wide (4H floats for the sums of an LSTM), so memory is spent where it saves most time per byte.
// Pure, load time. (performance.md §0 item 5.)
#ifndef CELLBATCH_CELLS_COMPILE_FOLD_H_
#define CELLBATCH_CELLS_COMPILE_FOLD_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "cells/program/cell_program.h"

namespace cellbatch {

// Tables are compared by what a task of so many nodes saves, a byte of the table.
inline constexpr int kFoldBatch = 16;

// One table that could be made.
struct FoldOffer {
  static constexpr int kWhole = -1;
  int step = kWhole;  // the product step that would start from it
  int64_t bytes = 0;
  double rate = 0;  // multiply-adds that a task of kFoldBatch nodes saves by it, a byte
};

// What of one program is folded.
struct CellFolds {
  std::vector<int> steps;  // numbers of product steps that start from folded sums
  bool whole = false;      // all of it; no steps then
  int64_t bytes = 0;       // of the tables
  std::vector<FoldOffer> taken = {}, refused = {};  // for people: the same, and what had no room
};

// The lookup with the most rows, if what a node leaves depends on nothing but the token it reads there: every lookup's
// token is that one or is computed from it, and nothing else that a node reads is used. A token beyond those rows leaves
// what the last one leaves, as every lookup clamps.
std::optional<int32_t> LookupOfWhole(const CellProgram& program);

// How large a device's rows are, in bytes.
struct FoldedRowBytes {
  absl::FunctionRef<int64_t(const ProductStep&)> sums;
  absl::FunctionRef<int64_t(int program)> node;  // all columns that a node leaves
};

// By program: the folds that fit into `budget_bytes` together, best time saved per byte first, of equals the program that
// stands first. A whole cell takes the place of its own sums where there is room: it saves what they save and more.
std::vector<CellFolds> PlanFolds(absl::Span<const CellProgram> programs, int64_t budget_bytes,
                                 const FoldedRowBytes& row_bytes);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_COMPILE_FOLD_H_
