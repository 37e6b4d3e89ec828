// Wall time of Table 2's cells run by two executors: their operator batches under a naive and a planned layout (cells/batched),
// and the compiled cell with fused tails, all on the same rows, in turns. Part of the benchmark `memplan`.
#ifndef CELLBATCH_TESTS_BENCH_BATCHED_TIMES_H_
#define CELLBATCH_TESTS_BENCH_BATCHED_TIMES_H_

#include "tests/bench/report.h"

namespace cellbatch {

// Half a minute; one thread. Ends the process if a cell does not compile, OpenBLAS is missing, or executors disagree.
void BatchedTimeFigures(Report& report);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_BATCHED_TIMES_H_
