#include "tests/testing/table2.h"

#include <algorithm>
#include <utility>

#include "cells/check.h"
#include "cells/compile/operator_problem.h"
#include "memplan/cells/cells.h"
#include "memplan/problem_text.h"
#include "tests/testing/shipped_cell.h"

namespace cellbatch::testing {
namespace {

constexpr int32_t kUnits = 64, kInstances = 8;

struct Derived {
  const char* name;
  std::vector<std::string> placed;
};

// In the paper's LSTM the state comes out of an operator of the cell, so that its place is the plan's.
const Derived kDerived[] = {
    {"lstm", {"before.c"}}, {"treelstm_internal", {}}, {"treelstm_leaf", {}}};

}  // namespace

LayoutProblem OperatorsOf(const std::string& shipped_cell, const std::vector<std::string>& placed) {
  const CellDefinition cell = ShippedDefinition(shipped_cell, {{"D", kUnits}, {"H", kUnits}});
  absl::StatusOr<LayoutProblem> problem = OperatorProblem(cell, kInstances, placed);
  Check(problem.ok(), problem.status().ToString());
  return *std::move(problem);
}

std::vector<Table2Cell> Table2() {
  std::vector<Table2Cell> cells;
  for (const Derived& d : kDerived) cells.push_back({d.name, OperatorsOf(d.name, d.placed)});
  for (const PlannedCell& cell : PlannedCells()) {
    cells.push_back({std::string(cell.name), *ParseProblem(cell.text)});
  }
  std::sort(cells.begin(), cells.end(),
            [](const Table2Cell& a, const Table2Cell& b) { return a.name < b.name; });
  return cells;
}

}  // namespace cellbatch::testing
