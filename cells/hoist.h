// A recurrent cell in two parts: what can be computed of all steps at once, because nothing recurrent feeds it, and the
// step that goes on from there.
//
//   eager   sums = b + x . W       a column for each gate; nodes are independent. One input more, "after", is not read: it
//                                  is for graphs to say what goes first
//   step    the cell, with one input more, its last ("hoisted sums"): what it means, its operators still say, from x on; a
//           compiler that finds the sums at the beginning of its products starts from them and does not multiply x
//
// Only products whose first terms are columns of inputs in `brought`, by whole parameters or parts of them, are taken
// apart. Pure, load time.
#ifndef CELLBATCH_CELLS_HOIST_H_
#define CELLBATCH_CELLS_HOIST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cells/cell_definition.h"
#include "cells/hoisted_sum.h"
#include "cells/ids.h"
#include "cells/program/program_limits.h"

namespace cellbatch {

struct HoistedCell {
  std::shared_ptr<const CellDefinition> eager;  // with all the cell's parameters, in their order
  std::vector<InputId> reads;  // by the eager cell's input, but for the last: the cell's
  InputId after_input;         // of `eager`: names a row that `step` leaves
  std::shared_ptr<const CellDefinition> step;
  InputId sums_input;            // of `step`: reads what `eager` leaves
  std::vector<HoistedSum> sums;  // by column of that

  int64_t multiply_adds() const;  // of one node, saved at each step: one weight read for each
};

// nullopt: there is nothing to hoist, or a part would have more than a cell may (kMaxOps). `brought`, by InputId: rows that
// requests bring. `limits`: of the device that should find the sums again; another one may, and else computes everything at
// each step.
std::optional<HoistedCell> Hoist(const CellDefinition& cell, const std::vector<bool>& brought,
                                 const ProgramLimits& limits);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_HOIST_H_
