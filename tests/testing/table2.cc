#include "tests/testing/table2.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "cells/check.h"
#include "cells/compile/operator_problem.h"
#include "server/cells/cell_codec.h"
#include "tests/testing/shipped_cell.h"
#include "tests/testing/table2_cells/table2_texts.h"

namespace cellbatch::testing {
namespace {

CellDefinition DefinitionOf(const Table2Text& cell, const Sizes& sizes) {
  const absl::StatusOr<CellText> text = ParseCell(cell.text, std::string(cell.name));
  Check(text.ok(), text.status().ToString());
  absl::StatusOr<CellDefinition> definition = BuildCell(*text, sizes, {});
  Check(definition.ok(), definition.status().ToString());
  return *std::move(definition);
}

}  // namespace

std::vector<Table2Cell> Table2(int32_t units, int32_t instances) {
  const Sizes sizes = {{"D", units}, {"H", units}};
  std::vector<Table2Cell> cells;
  for (const std::string_view shipped : {"lstm", "treelstm_internal", "treelstm_leaf"}) {
    cells.push_back({std::string(shipped), ShippedDefinition(shipped, sizes), {}, {}});
    if (shipped == "lstm") cells.back().placed = {"before.c"};
  }
  for (const Table2Text& text : Table2Texts()) {
    cells.push_back({std::string(text.name), DefinitionOf(text, sizes), {}, {}});
  }
  for (Table2Cell& cell : cells) {
    absl::StatusOr<LayoutProblem> graph = OperatorProblem(cell.definition, instances, cell.placed);
    Check(graph.ok(), graph.status().ToString());
    cell.graph = *std::move(graph);
  }
  std::sort(cells.begin(), cells.end(),
            [](const Table2Cell& a, const Table2Cell& b) { return a.name < b.name; });
  return cells;
}

}  // namespace cellbatch::testing
