#include "tests/testing/shipped_cell.h"

#include <string>
#include <utility>

#include "cells/check.h"
#include "cells/definitions/shipped.h"
#include "server/cell_codec.h"

namespace cellbatch::testing {

CellDefinition ShippedDefinition(std::string_view name, const Sizes& sizes) {
  for (const ShippedCell& shipped : ShippedCells()) {
    if (shipped.name != name) continue;
    const absl::StatusOr<CellText> text = ParseCell(shipped.text, std::string(name));
    Check(text.ok(), text.status().ToString());
    absl::StatusOr<CellDefinition> cell = BuildCell(*text, sizes, {});
    Check(cell.ok(), cell.status().ToString());
    return *std::move(cell);
  }
  CheckFailed("no such shipped cell", std::source_location::current());
}

}  // namespace cellbatch::testing
