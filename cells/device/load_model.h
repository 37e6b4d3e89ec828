// What loading a model into a memory begins with, whatever computes there: is the budget one, how do rows lie, which programs
// are its cells. Pure; load time, milliseconds; any thread.
#ifndef CELLBATCH_CELLS_DEVICE_LOAD_MODEL_H_
#define CELLBATCH_CELLS_DEVICE_LOAD_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cells/device/memory.h"
#include "cells/device/table_rows.h"
#include "cells/model.h"
#include "cells/program/cell_program.h"
#include "cells/program/program_limits.h"

namespace cellbatch {

// INVALID_ARGUMENT: rows for other tables than the model's, or a table with fewer than two.
absl::Status CheckBudget(const Model& model, const RowBudget& budget);

// By TableId, in the order of columns that is planned for all cells.
std::vector<TableRows> LayTables(const Model& model);

// Of an array with so many elements a row: the trash row's included.
int64_t BytesOfRows(int64_t elements, int32_t rows);
// Of all tables.
int64_t RowBytes(const Model& model, const RowBudget& budget);

// By CellTypeId, with products that start from hoisted sums.
absl::StatusOr<std::vector<CellProgram>> LowerCells(const Model& model,
                                                    const ProgramLimits& limits);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_LOAD_MODEL_H_
