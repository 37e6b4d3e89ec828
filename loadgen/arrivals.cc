#include "loadgen/arrivals.h"

#include <cmath>

namespace cellbatch {

std::vector<int64_t> MakeArrivals(const ArrivalOptions& options) {
  std::mt19937_64 random(options.seed);
  std::vector<int64_t> arrivals;
  arrivals.reserve(static_cast<size_t>(options.rate * options.seconds * 1.1) + 16);
  const double mean_gap = 1 / options.rate;
  double at = 0;
  for (uint64_t i = 1;; ++i) {
    // Equal gaps by multiplication, so that no error adds up.
    at = options.process == ArrivalProcess::kConstant
             ? static_cast<double>(i - 1) * mean_gap
             : at - std::log1p(-UniformFrom(random)) * mean_gap;
    if (at >= options.seconds) {
      return arrivals;
    }
    arrivals.push_back(static_cast<int64_t>(at * 1e9));
  }
}

}  // namespace cellbatch
