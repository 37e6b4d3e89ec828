// A cell with these inputs and outputs, for tests of graphs and of scheduling: what it computes does not matter
// there. It reads every column of its inputs, and leaves constants; for an INT32 column, the place of the
// largest of one.
#ifndef CELLBATCH_CELLS_ANY_CELL_H_
#define CELLBATCH_CELLS_ANY_CELL_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cells/cell_definition.h"

namespace cellbatch::testing {

// Ends the process if it is not valid.
std::shared_ptr<const CellDefinition> AnyCell(std::string name, std::vector<Input> inputs,
                                              const std::vector<Column>& leaves,
                                              std::optional<InputId> carry = {});

}  // namespace cellbatch::testing

#endif  // CELLBATCH_CELLS_ANY_CELL_H_
