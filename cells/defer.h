// A recurrent cell in two parts: the step, which leaves what other steps read, and what nothing recurrent reads (a
// projection, a softmax, a label), which need not be computed at each step.
//
//   step       the columns that stay, and beside them ("deferred 1", .., as no column of the cell is called) what the other
//              part reads
//   deferred   the other columns, of a row that `step` left: its one input. Nodes are independent
//
// Operators that both need are computed by the step; rows of tables are read by each. Taken apart only where a compiler
// adds in the same order: each sum of products of the parts is one of the whole, in whichever precision, no two
// products share weights (they could not be told apart), and no parameter is computed with, alone, by both parts (that is done
// at load, as others read it). So bits are those of the whole cell. Pure, load time.
#ifndef CELLBATCH_CELLS_DEFER_H_
#define CELLBATCH_CELLS_DEFER_H_

#include <memory>
#include <optional>
#include <vector>

#include "cells/cell_definition.h"
#include "cells/program/program_limits.h"

namespace cellbatch {

struct DeferredCell {
  std::shared_ptr<const CellDefinition> step;  // with the cell's inputs and carry
  std::shared_ptr<const CellDefinition> deferred;
};

// What becomes of a column. The carry's columns stay.
enum class ColumnPart : uint8_t {
  kStep,
  kDeferred,
  kBoth,  // the step leaves it, and the deferred part again: somebody reads it beside deferred ones
};

// nullopt: nothing is to be computed later, or the parts would not have the bits of the whole, or one of them more than a cell
// may have. `parts`: by column, at least one of kDeferred. `limits`: of the device that will run it.
std::optional<DeferredCell> Defer(const CellDefinition& cell, const std::vector<ColumnPart>& parts,
                                  const ProgramLimits& limits);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEFER_H_
