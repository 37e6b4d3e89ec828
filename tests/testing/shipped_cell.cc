#include "tests/testing/shipped_cell.h"

#include <string>
#include <utility>

#include "cells/check.h"
#include "cells/definitions/shipped.h"
#include "server/cells/cell_codec.h"
#include "server/cells/cell_sizes.h"

namespace cellbatch::testing {

std::string_view ShippedText(std::string_view name) {
  for (const ShippedCell& shipped : ShippedCells()) {
    if (shipped.name == name) return shipped.text;
  }
  return {};
}

CellDefinition ShippedDefinition(std::string_view name, const Sizes& sizes) {
  const std::string_view shipped = ShippedText(name);
  Check(!shipped.empty(), "no such shipped cell");
  const absl::StatusOr<CellText> text = ParseCell(shipped, std::string(name));
  Check(text.ok(), text.status().ToString());
  absl::StatusOr<CellDefinition> cell = BuildCell(*text, sizes, {});
  Check(cell.ok(), cell.status().ToString());
  return *std::move(cell);
}

absl::StatusOr<CellDefinition> DefinitionOfWidth(std::string_view text, const std::string& file,
                                                 int64_t width) {
  const absl::StatusOr<CellText> parsed = ParseCell(text, file);
  if (!parsed.ok()) return parsed.status();
  Sizes sizes;
  for (const std::string& name : SizesOf(*parsed)) sizes[name] = width;
  return BuildCell(*parsed, std::move(sizes), {});
}

}  // namespace cellbatch::testing
