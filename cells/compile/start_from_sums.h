// Sums that are begun elsewhere (cells/hoisted_sum.h), as a program has them: which ones its products begin with, and the
// same program with its products starting from the columns that hold them.
//
//   product 4x64 x[32] h[64]      BegunSums: four sums of b and x . W, by gate
//   product 4x64 h[64] from sums  StartFromSums
//
// An accumulator is one chain of multiply-adds, so that a chain which is interrupted and continued has the bits of the
// whole. Pure, load time.
#ifndef CELLBATCH_CELLS_COMPILE_START_FROM_SUMS_H_
#define CELLBATCH_CELLS_COMPILE_START_FROM_SUMS_H_

#include <vector>

#include "absl/types/span.h"
#include "cells/hoisted_sum.h"
#include "cells/program/cell_program.h"

namespace cellbatch {

// The sums that products begin with as far as they read nothing but inputs in `brought` (by InputId), `at` unset. Of one
// product all are of the same terms' rows, so that a cell of the sums alone adds in the same order.
std::vector<HoistedSum> BegunSums(const CellProgram& program, const std::vector<bool>& brought);

// Every chain that begins with one of `sums` starts from it. Others stay: sums are an offer.
void StartFromSums(absl::Span<const HoistedSum> sums, CellProgram& program);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_COMPILE_START_FROM_SUMS_H_
