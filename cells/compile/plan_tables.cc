#include "cells/compile/plan_tables.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cells/check.h"
#include "cells/compile/plan_cell.h"
#include "memplan/planner.h"

namespace cellbatch {
namespace {

constexpr int64_t kWeight = 4;

// The columns of `table` that an input reads, those in `columns` alone, as positions there.
std::vector<VariableId> ReadTogether(const TableSpec& table, const std::vector<int32_t>& columns,
                                     const Input& input) {
  std::vector<VariableId> read;
  for (const Column& column : input.reads) {
    const auto at = std::find(columns.begin(), columns.end(),
                              static_cast<int32_t>(table.Find(column.name).value()));
    if (at != columns.end()) read.push_back(static_cast<VariableId>(at - columns.begin()));
  }
  std::sort(read.begin(), read.end());
  return read;
}

// Each input of each cell that reads some of them wants these side by side, in whatever order: a batch of readers that may
// run in any. Twice the same wish weighs twice. All columns weigh alike (memplan wants operands of one size): what is saved
// is a jump, not bytes.
LayoutProblem ProblemOf(const Model& model, TableId id, const std::vector<int32_t>& columns) {
  const TableSpec& table = model.table(id);
  LayoutProblem problem;
  for (const int32_t c : columns) {
    problem.variables.push_back(
        {table.columns[static_cast<size_t>(c)].name, VariableKind::kInput, kWeight});
  }
  for (const CellType& type : model.types) {
    for (size_t i = 0; i < type.in.size(); ++i) {
      if (type.in[i] != id) continue;
      std::vector<VariableId> read = ReadTogether(table, columns, type.definition->inputs()[i]);
      if (read.size() < 2 || read.size() == columns.size()) continue;
      OperandBatch batch = {"read", {{}, {}}};
      for (size_t r = 0; r < read.size(); ++r) {
        batch.operands[0].push_back(static_cast<VariableId>(problem.variables.size()));
        problem.variables.push_back({"reader", VariableKind::kValue, kWeight});
      }
      batch.operands[1] = std::move(read);
      problem.batches.push_back(std::move(batch));
    }
  }
  return problem;
}

}  // namespace

std::vector<std::vector<int32_t>> PlanTables(const Model& model) {
  std::vector<std::vector<int32_t>> orders;
  for (size_t t = 0; t < model.tables.size(); ++t) {
    std::vector<int32_t>& order = orders.emplace_back();
    const std::vector<Column>& columns = model.tables[t].columns;
    for (size_t c = 0; c < columns.size(); ++c) {
      if (columns[c].type != ElementType::kInt32) order.push_back(static_cast<int32_t>(c));
    }
    if (order.size() < 3) continue;
    const LayoutProblem problem = ProblemOf(model, TableId(static_cast<int64_t>(t)), order);
    if (problem.batches.empty()) continue;
    const absl::StatusOr<MemoryLayout> layout = Plan(problem, {.max_work = kMaxPlanWork});
    Check(layout.ok(), layout.status().ToString());
    std::vector<int32_t> planned;
    for (const VariableId v : layout->order) {
      if (static_cast<size_t>(v) < order.size()) planned.push_back(order[static_cast<size_t>(v)]);
    }
    order = std::move(planned);
  }
  return orders;
}

}  // namespace cellbatch
