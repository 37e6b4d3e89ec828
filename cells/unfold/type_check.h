// How unfolders find their way in a model's cell types: by the names of inputs and columns. Used
// once a model, when an unfolder is made. Pure; any thread.
#ifndef CELLBATCH_CELLS_UNFOLD_TYPE_CHECK_H_
#define CELLBATCH_CELLS_UNFOLD_TYPE_CHECK_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "cells/model.h"

namespace cellbatch {

// INVALID_ARGUMENT: the model has no such type.
absl::StatusOr<const CellType*> TypeOf(const Model& model, CellTypeId id);

// Invalid: there is none of that name (and element type).
InputId InputNamed(const CellType& type, std::string_view name);
ColumnId ColumnNamed(const CellType& type, std::string_view name,
                     ElementType element = ElementType::kFp32);

const Column& ColumnOf(const CellType& type, ColumnId column);
// Elements of a column; of an invalid one 0.
int32_t WidthOf(const CellType& type, ColumnId column);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_TYPE_CHECK_H_
