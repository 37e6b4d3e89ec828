// How long a fuzz test goes on: CELLBATCH_FUZZ_SECONDS, which .bazelrc sets for tests/run (half a minute each; less under
// the sanitizers, where a case costs ten times as much). Without it a second: `least` cases are tried in any case,
// and what a test expects of its counts it says in shares of cases(). One thread.
//
//   for (FuzzBudget budget(1000); budget.Next();) { ... }
#ifndef CELLBATCH_TESTS_FUZZ_FUZZ_BUDGET_H_
#define CELLBATCH_TESTS_FUZZ_FUZZ_BUDGET_H_

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>

namespace cellbatch {

class FuzzBudget {
 public:
  // `share` of the time, where a target has several tests.
  explicit FuzzBudget(int64_t least, double share = 1.0)
      : least_(least), end_(std::chrono::steady_clock::now() + Time(share)) {}
  ~FuzzBudget() { std::cout << cases_ << " cases\n"; }
  FuzzBudget(const FuzzBudget&) = delete;
  FuzzBudget& operator=(const FuzzBudget&) = delete;

  bool Next() {
    // The clock is asked now and then only: a case may be shorter than the asking.
    if (cases_ >= least_ && cases_ % 16 == 0 && std::chrono::steady_clock::now() >= end_) {
      return false;
    }
    ++cases_;
    return true;
  }
  int64_t cases() const { return cases_; }

 private:
  static std::chrono::nanoseconds Time(double share) {
    const char* text = std::getenv("CELLBATCH_FUZZ_SECONDS");
    const double seconds = text == nullptr ? 1.0 : std::strtod(text, nullptr);
    return std::chrono::nanoseconds(static_cast<int64_t>(seconds * share * 1e9));
  }

  const int64_t least_;
  int64_t cases_ = 0;
  std::chrono::steady_clock::time_point end_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_FUZZ_FUZZ_BUDGET_H_
