// One side of a ratio: a model served on one core, in process, without threads of the scheduler's own. What the benchmarks
// `hoist` and `deferred` share. Ends the process with a message when it fails; one thread.
#ifndef CELLBATCH_TESTS_BENCH_ONE_CORE_H_
#define CELLBATCH_TESTS_BENCH_ONE_CORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "cells/model.h"
#include "tests/bench/stepped.h"
#include "tests/zoo/workload.h"

namespace cellbatch {

class OneCore {
 public:
  OneCore(std::shared_ptr<const Model> model, int64_t fold_budget_bytes);

  struct Wave {
    double seconds = 0;             // until the last is answered
    double first_step_seconds = 0;  // until a task of the first cell type is done
  };
  // All of them submitted at once, for that output. Unfolding is not counted.
  Wave Run(absl::Span<const zoo::Asked> asked, const std::string& output = "OUTPUT");
  std::string folded() { return stepped_.scheduler().stats().Lanes()[0].folded; }

 private:
  uint64_t StepsDone() { return stepped_.scheduler().stats().Lanes()[0].types[0].tasks; }

  const std::shared_ptr<const Model> model_;
  Stepped stepped_;
};

// n requests of X [steps, width].
std::vector<zoo::Asked> VectorSequences(int n, int64_t steps, int64_t width);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_ONE_CORE_H_
