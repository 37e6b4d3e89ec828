// In which order the columns of a table lie in its rows: one order for all cells that read or write them. Asks memplan.
//
//   table {c, h, m}     cell "step" reads {h, c}, cell "gate" reads {h, m}      order  c h m: each reads one stretch
//
// A node's row is then one stretch of memory (or, of a cell that reads some columns of it, mostly), and what the next node
// gathers from a row that nobody touched for a while are neighbouring lines of one page, not lines of several.
//
// INT32 columns are not in it: the host reads each as a dense array (cells/device/memory.h). Pure, any thread; load time:
// nothing to ask where a table has fewer than three FP32 columns.
#ifndef CELLBATCH_CELLS_COMPILE_PLAN_TABLES_H_
#define CELLBATCH_CELLS_COMPILE_PLAN_TABLES_H_

#include <cstdint>
#include <vector>

#include "cells/model.h"

namespace cellbatch {

// By TableId: the numbers of its FP32 columns, first to last.
std::vector<std::vector<int32_t>> PlanTables(const Model& model);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_COMPILE_PLAN_TABLES_H_
