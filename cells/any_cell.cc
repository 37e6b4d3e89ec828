#include "cells/any_cell.h"

#include <utility>

#include "cells/check.h"
#include "cells/empty_cell.h"

namespace cellbatch::testing {

std::shared_ptr<const CellDefinition> AnyCell(std::string name, std::vector<Input> inputs,
                                              const std::vector<Column>& leaves,
                                              std::optional<InputId> carry) {
  auto made = EmptyCell(std::move(name), std::move(inputs), leaves, carry);
  Check(made.ok(), std::string(made.status().message()));
  return *std::move(made);
}

}  // namespace cellbatch::testing
