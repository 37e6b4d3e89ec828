#include "tests/golden/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cellbatch::golden {

double PartOfBound(const std::vector<double>& expected, const std::vector<double>& got) {
  constexpr double kBound = 1e-5;
  constexpr double kNowhere = std::numeric_limits<double>::infinity();
  if (expected.size() != got.size()) return kNowhere;
  double squares = 0, error_squares = 0, most = 0, most_error = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(expected[i] - got[i]);
    if (!std::isfinite(error)) return kNowhere;
    squares += expected[i] * expected[i];
    error_squares += error * error;
    most = std::max(most, std::abs(expected[i]));
    most_error = std::max(most_error, error);
  }
  const double by_norm = error_squares == 0 ? 0 : std::sqrt(error_squares / squares) / kBound;
  return std::max(by_norm, most_error / (kBound * std::max(1.0, most)));
}

}  // namespace cellbatch::golden
