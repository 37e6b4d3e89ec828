// Whether a run's figures may be believed. A run that is not VALID is not corrected: it says what is
// wrong and what to change.

#ifndef CELLBATCH_LOADGEN_VERDICT_H_
#define CELLBATCH_LOADGEN_VERDICT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "loadgen/samples.h"
#include "loadgen/sender.h"

namespace cellbatch {

struct VerdictLimits {
  int64_t most_send_lag_p99_ns = 1'000'000;
  uint64_t least_answers = 459;  // what a p99 needs
};

struct Finding {
  std::string reason;
  std::string remedy;
};

struct Verdict {
  std::vector<Finding> findings;  // empty: VALID
  // Not wrong, but to be read with the figures: the server was beyond its capacity. Whether it kept up with the rate is
  // only said of a schedule that was sent to its end.
  bool overload = false;

  bool valid() const { return findings.empty(); }
};

// How the sending ended.
struct Ending {
  SendEnd end = SendEnd::kAll;
  int most_in_flight = 0;  // as many as there was room for
};

Verdict Judge(const Summary& summary, const VerdictLimits& limits, const Ending& ending);

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_VERDICT_H_
