// The part of the benchmark `deferred` that runs in process (the other one's client has types of the same names).
#ifndef CELLBATCH_TESTS_BENCH_DEFERRED_CELLS_H_
#define CELLBATCH_TESTS_BENCH_DEFERRED_CELLS_H_

#include <cstdint>
#include <vector>

#include "tests/bench/report.h"

namespace cellbatch {

struct DeferredSizes {
  int64_t h = 1024;
  std::vector<int64_t> columns;  // of the projection
  int64_t steps = 24;
  int rounds = 9;
};

// An LSTM that leaves a projection of its state at each step, whole and with the projection deferred: the figures
// deferred.lstm_hH_nN_bB.{speedup,last}.
void MeasureProjections(const DeferredSizes& sizes, Report& report);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_DEFERRED_CELLS_H_
