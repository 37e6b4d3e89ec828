#include "cells/unfold/type_check.h"

#include <fmt/format.h>

#include "absl/types/span.h"

namespace cellbatch {

absl::StatusOr<const CellType*> TypeOf(const Model& model, CellTypeId id) {
  if (id.valid() && static_cast<size_t>(id.value()) < model.types.size()) return &model.type(id);
  return absl::InvalidArgumentError(
      fmt::format("cell type {} of {}", id.value(), model.types.size()));
}

InputId InputNamed(const CellType& type, std::string_view name) {
  const absl::Span<const Input> inputs = type.definition->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].name == name) return InputId(static_cast<int64_t>(i));
  }
  return InputId();
}

ColumnId ColumnNamed(const CellType& type, std::string_view name, ElementType element) {
  const absl::Span<const Column> columns = type.definition->columns();
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == name && columns[i].type == element) {
      return ColumnId(static_cast<int64_t>(i));
    }
  }
  return ColumnId();
}

const Column& ColumnOf(const CellType& type, ColumnId column) {
  return type.definition->columns()[static_cast<size_t>(column.value())];
}

int32_t WidthOf(const CellType& type, ColumnId column) {
  return column.valid() ? ColumnOf(type, column).width : 0;
}

}  // namespace cellbatch
