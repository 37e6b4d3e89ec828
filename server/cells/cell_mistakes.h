// Where in a cell's text a mistake stands, and what would mend it: for error texts, after something was refused.
//
// Plain functions; any thread. O(operators x log operators), and that for each width that a carry might have had.
#ifndef CELLBATCH_SERVER_CELLS_CELL_MISTAKES_H_
#define CELLBATCH_SERVER_CELLS_CELL_MISTAKES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cells/cell_definition.h"
#include "server/cells/cell_codec.h"

namespace cellbatch {

// What CellDefinition::Create was given, and where each operator was written.
struct CellDraft {
  std::vector<Op> ops;
  std::vector<std::string> op_names, op_places;  // of ops; of leaves where they are first used
  std::vector<Input> inputs;
  std::vector<Parameter> parameters;
  std::vector<Output> outputs;
  std::optional<InputId> carry;

  absl::StatusOr<CellDefinition> Create(const std::string& cell) const {
    return CellDefinition::Create(cell, ops, inputs, parameters, outputs, carry, op_names);
  }
};

// `refused` is what Create said of the draft: the same with the line in front of it. Where the operators would fit if the
// carry read what the cell leaves, the carry's line and both widths instead.
absl::Status LocateMistake(const CellText& text, const CellDraft& draft,
                           const absl::Status& refused);

// Why an argument or output `value` names nothing, and what may have been meant.
std::string WhyNothing(const CellText& text, const std::string& value);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CELLS_CELL_MISTAKES_H_
