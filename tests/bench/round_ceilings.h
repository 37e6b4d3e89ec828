// What one core multiplies, probed before and after each round of a benchmark: a ceiling that was probed once says nothing
// about what a neighbour took of the core since.
//
//   peak   multiply-adds in registers
//   fed    multiply-adds of a tile whose rows and weights lie in L1: what is left of the peak where loads have to be issued,
//          too. A neighbour on the same core takes instructions a cycle, and of those a tile needs nearly twice as many.
//
//   rounds.Begin();  ...what is measured...  rounds.End();
//   flops / rounds.peak()                                    the higher of the two probes of this round
//
// One thread. Begin and End take some 5 ms each.
#ifndef CELLBATCH_TESTS_BENCH_ROUND_CEILINGS_H_
#define CELLBATCH_TESTS_BENCH_ROUND_CEILINGS_H_

#include <string>
#include <vector>

#include "tests/bench/report.h"

namespace cellbatch {

class RoundCeilings {
 public:
  explicit RoundCeilings(std::string instruction_set);

  void Begin();
  void End();
  // Of the last round, flops a second.
  double peak() const { return peaks_.back(); }
  double fed() const { return feds_.back(); }

  // Of all rounds: "95.1 (94.2-96.0) GF/s".
  std::string Peaks() const;
  std::string Feds() const;

 private:
  const std::string instruction_set_;
  std::vector<double> peaks_, feds_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_ROUND_CEILINGS_H_
