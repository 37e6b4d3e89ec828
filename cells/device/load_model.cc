#include "cells/device/load_model.h"

#include <map>
#include <utility>

#include "cells/compile/lower.h"
#include "cells/compile/plan_tables.h"
#include "cells/compile/start_from_sums.h"
#include "fmt/format.h"

namespace cellbatch {

absl::Status CheckBudget(const Model& model, const RowBudget& budget) {
  if (budget.rows.size() != model.tables.size()) {
    return absl::InvalidArgumentError(fmt::format("model \"{}\": rows for {} tables, it has {}",
                                                  model.name, budget.rows.size(),
                                                  model.tables.size()));
  }
  for (size_t t = 0; t < budget.rows.size(); ++t) {
    if (budget.rows[t] >= 2) continue;
    return absl::InvalidArgumentError(
        fmt::format("model \"{}\": table \"{}\": {} rows, the least are 2: zeros and one to use",
                    model.name, model.tables[t].name, budget.rows[t]));
  }
  return absl::OkStatus();
}

std::vector<TableRows> LayTables(const Model& model) {
  const std::vector<std::vector<int32_t>> orders = PlanTables(model);
  std::vector<TableRows> tables;
  for (size_t t = 0; t < orders.size(); ++t) {
    tables.push_back(LayTable(model.tables[t], orders[t]));
  }
  return tables;
}

int64_t BytesOfRows(int64_t elements, int32_t rows) {
  return elements * (int64_t{rows} + 1) * int64_t{sizeof(float)};
}

int64_t RowBytes(const Model& model, const RowBudget& budget) {
  const std::vector<TableRows> tables = LayTables(model);
  int64_t bytes = 0;
  for (size_t t = 0; t < tables.size(); ++t) {
    bytes += BytesOfRows(tables[t].RowElements(), budget.rows[t]);
  }
  return bytes;
}

absl::StatusOr<std::vector<CellProgram>> LowerCells(const Model& model,
                                                    const ProgramLimits& limits) {
  std::vector<CellProgram> programs;
  // Types may share a definition, and lowering takes milliseconds.
  std::map<std::pair<const CellDefinition*, Precision>, CellProgram> lowered;
  for (const CellType& type : model.types) {
    const Precision computed = limits.Computed(type.precision);
    const std::pair key = {type.definition.get(), computed};
    auto known = lowered.find(key);
    if (known == lowered.end()) {
      absl::StatusOr<CellProgram> program = Lower(*type.definition, limits.In(computed));
      if (!program.ok()) return program.status();
      known = lowered.emplace(key, *std::move(program)).first;
    }
    CellProgram& program = programs.emplace_back(known->second);
    StartFromSums(type.hoisted, program);
    program.precision = computed;
  }
  return programs;
}

}  // namespace cellbatch
