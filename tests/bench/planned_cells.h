// What the plan makes of each shipped cell: steps, values that are stored between them ("spills"), scratch of one node
// without and with the space that values share, and how long planning takes. Part of the benchmark `memplan`.
#ifndef CELLBATCH_TESTS_BENCH_PLANNED_CELLS_H_
#define CELLBATCH_TESTS_BENCH_PLANNED_CELLS_H_

#include "tests/bench/report.h"

namespace cellbatch {

// Widths 64, a vocabulary of 1000; and how long the plan of a cell of the most operators takes. Ends the process if a shipped cell does not compile.
void PlannedCellFigures(Report& report);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_PLANNED_CELLS_H_
