// What planning adds to the load of a whole model. Part of the benchmark `memplan`.
//
//   planned.ms    its files read, every cell type compiled, planned, packed and tried, its rows mapped; not yet warmed
//   declared.ms   less what planning took beyond the plan of somebody who did not ask (DeclaredPlan)
//   load_ratio    planned / declared
//
// Both are measured in turns, as the time of the one thread that loads. Models are those of the zoo.
#ifndef CELLBATCH_TESTS_BENCH_PLANNED_LOAD_H_
#define CELLBATCH_TESTS_BENCH_PLANNED_LOAD_H_

#include "tests/bench/report.h"

namespace cellbatch {

void PlannedLoadFigures(Report& report);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_PLANNED_LOAD_H_
