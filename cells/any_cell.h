// EmptyCell for tests of graphs and of scheduling, where what a cell computes does not matter.
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
