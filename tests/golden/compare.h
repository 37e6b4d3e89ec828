// Compares what PyTorch answered with what the interpreter computes and what a served model answers.
#ifndef CELLBATCH_TESTS_GOLDEN_COMPARE_H_
#define CELLBATCH_TESTS_GOLDEN_COMPARE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/golden/served.h"
#include "tests/golden/torch_case.h"

namespace cellbatch::golden {

// Worst parts of the bound over every run and output of a case (PartOfBound).
struct Agreement {
  double interpreted = 0;  // in double, by the interpreter
  double served = 0;       // by the scheduler on a CPU device
  int answers = 0;         // compared
  std::string worst;       // where `served` is: "FINAL_C of 330 steps"
};

absl::StatusOr<Agreement> Compare(const TorchCase& torch_case, const std::string& folder,
                                  ModelId id, Served& served);

}  // namespace cellbatch::golden

#endif  // CELLBATCH_TESTS_GOLDEN_COMPARE_H_
