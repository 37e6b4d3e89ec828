// Rates on the command line, and the points of a sweep.
//
//   --rate 120   --rate 40%   --sweep 20:200:20   --sweep 10%:110%:10%
//
// A share is one of the capacity that a closed loop measures first. Pure functions.

#ifndef CELLBATCH_LOADGEN_SWEEP_H_
#define CELLBATCH_LOADGEN_SWEEP_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "loadgen/run.h"

namespace cellbatch {

struct Rate {
  double value = 0;  // requests a second, or a share
  bool of_capacity = false;

  double Resolve(double capacity) const { return of_capacity ? value * capacity : value; }
};

// "120" or "40%": positive. INVALID_ARGUMENT otherwise; `flag` is named in the text.
absl::StatusOr<Rate> ParseRate(const std::string& flag, const std::string& text);

// FROM:TO:STEP, both ends included; all three rates or all three shares, at most 1,000 points.
absl::StatusOr<std::vector<Rate>> ParseSweep(const std::string& text);

// Requests/s of those rates that a sweep has no point for: it goes upwards, and `measured` is how many it came to.
std::vector<double> NotMeasured(const std::vector<Rate>& rates, double capacity, size_t measured);
// "80.0 requests/s" or "700.0 to 900.0 requests/s (3 rates)"; not empty, upwards.
std::string RatesText(const std::vector<double>& rates);

// The highest rate of the points at and below which every run was VALID and kept up; 0 for none.
double HighestSustained(const std::vector<RunResult>& points);

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_SWEEP_H_
