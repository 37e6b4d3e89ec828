#include "cells/explain/plan_names.h"

#include <string>

#include "cells/check.h"
#include "cells/explain/equations.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

using Origin = PlannedVariable::Origin;

std::string Behind(int64_t offset) { return offset == 0 ? "" : fmt::format("+{}", offset); }

// What was computed at load of parameters alone.
std::string Prepared(size_t number) { return fmt::format("prepared{}", number); }

// Its rows, and of these the columns if not all; where it is no such block, where it begins.
std::string Block(const Parameter& parameter, const PlannedVariable& from, int64_t elements) {
  const int64_t cols = parameter.shape.cols;
  if (elements == parameter.shape.size()) return parameter.name;
  if (from.unit_stride != cols) return parameter.name + Behind(from.offset);
  const int64_t row = from.offset / cols, column = from.offset % cols;
  const std::string rows =
      fmt::format("{}[{}:{}", parameter.name, row, row + elements / from.depth);
  if (from.depth == cols) return rows + "]";
  return fmt::format("{}, {}:{}]", rows, column, column + from.depth);
}

std::string NameOf(const CellDefinition& cell, const CellSkeleton& skeleton,
                   const PlannedVariable& from, int64_t elements) {
  const auto index = static_cast<size_t>(from.index);
  const size_t given = cell.parameters().size();
  switch (from.origin) {
    case Origin::kWeightGroup:
      return fmt::format("group{}.{}", from.step, from.index);
    case Origin::kScratchValue:
      return fmt::format("kept{}", from.index);
    case Origin::kInputColumn:
      return ColumnName(cell, cell.inputs()[index], static_cast<size_t>(from.column)) +
             Behind(from.offset);
    case Origin::kOutputColumn:
      return "->" + cell.columns()[index].name + Behind(from.offset);
    case Origin::kTableRow: {
      const auto table = static_cast<size_t>(skeleton.lookups[index].table.value());
      return (table < given ? cell.parameters()[table].name : Prepared(table - given)) + "[]" +
             Behind(from.offset);
    }
    case Origin::kWeights:
      if (index >= given) return Prepared(index - given) + Behind(from.offset);
      return Block(cell.parameters()[index], from, elements);
    case Origin::kPartialSum:
      return fmt::format("part{}.{}", from.step, from.index);
    case Origin::kPiece:
      return fmt::format("piece{}.{}", from.step, from.index);
  }
  NoSuchEnumerator();
}

}  // namespace

LayoutProblem WithNames(const CellDefinition& cell, const CellSkeleton& skeleton,
                        const CellPlan& plan) {
  LayoutProblem named = plan.problem;
  for (size_t v = 0; v < named.variables.size(); ++v) {
    Variable& variable = named.variables[v];
    variable.name = NameOf(cell, skeleton, plan.variables[v], variable.bytes / 4);
  }
  return named;
}

}  // namespace cellbatch
