// A cell with these inputs and outputs that computes nothing, for whoever needs a model's graphs and not its answers: a
// recorded schedule that is taken again, tests of scheduling. It reads every column of its inputs, and leaves constants;
// of an INT32 column, the place of the largest of one.
#ifndef CELLBATCH_CELLS_EMPTY_CELL_H_
#define CELLBATCH_CELLS_EMPTY_CELL_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/cell_definition.h"

namespace cellbatch {

// Fails as CellDefinition::Create does.
absl::StatusOr<std::shared_ptr<const CellDefinition>> EmptyCell(std::string name,
                                                                std::vector<Input> inputs,
                                                                const std::vector<Column>& leaves,
                                                                std::optional<InputId> carry);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_EMPTY_CELL_H_
