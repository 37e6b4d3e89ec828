#include "loadgen/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"

namespace cellbatch {

absl::StatusOr<Rate> ParseRate(const std::string& flag, const std::string& text) {
  Rate rate;
  rate.of_capacity = !text.empty() && text.back() == '%';
  const std::string number = text.substr(0, text.size() - (rate.of_capacity ? 1 : 0));
  if (!absl::SimpleAtod(number, &rate.value) || !(rate.value > 0) || std::isinf(rate.value)) {
    return absl::InvalidArgumentError(
        fmt::format("--{}: \"{}\" is no positive number of requests a second, nor a share like 40%",
                    flag, text));
  }
  if (rate.of_capacity) {
    rate.value /= 100;
  }
  return rate;
}

absl::StatusOr<std::vector<Rate>> ParseSweep(const std::string& text) {
  std::vector<Rate> ends;
  std::stringstream stream(text);
  for (std::string word; std::getline(stream, word, ':');) {
    const auto rate = ParseRate("sweep", word);
    if (!rate.ok()) {
      return rate.status();
    }
    ends.push_back(*rate);
  }
  if (ends.size() != 3 || ends[1].value < ends[0].value ||
      ends[0].of_capacity != ends[1].of_capacity || ends[0].of_capacity != ends[2].of_capacity) {
    return absl::InvalidArgumentError(
        fmt::format("--sweep: \"{}\" is not FROM:TO:STEP, upwards, all rates or all shares", text));
  }
  // Half a thousandth of a step: the last point is there although 0.1 is no binary fraction.
  const double steps = std::floor((ends[1].value - ends[0].value) / ends[2].value + 5e-4);
  if (steps >= 1000) {
    return absl::InvalidArgumentError(
        fmt::format("--sweep: \"{}\" has more than 1000 points", text));
  }
  std::vector<Rate> points;
  for (int i = 0; i <= static_cast<int>(steps); ++i) {
    points.push_back({ends[0].value + i * ends[2].value, ends[0].of_capacity});
  }
  return points;
}

std::vector<double> NotMeasured(const std::vector<Rate>& rates, double capacity, size_t measured) {
  std::vector<double> left;
  for (size_t i = measured; i < rates.size(); ++i) {
    left.push_back(rates[i].Resolve(capacity));
  }
  return left;
}

std::string RatesText(const std::vector<double>& rates) {
  return rates.size() == 1 ? fmt::format("{:.1f} requests/s", rates.front())
                           : fmt::format("{:.1f} to {:.1f} requests/s ({} rates)", rates.front(),
                                         rates.back(), rates.size());
}

double HighestSustained(const std::vector<RunResult>& points) {
  std::vector<const RunResult*> upwards;
  for (const RunResult& point : points) {
    upwards.push_back(&point);
  }
  std::sort(upwards.begin(), upwards.end(),
            [](const RunResult* a, const RunResult* b) { return a->rate < b->rate; });
  double highest = 0;
  for (const RunResult* point : upwards) {
    if (!point->verdict.valid() || point->verdict.overload) {
      break;
    }
    highest = point->rate;
  }
  return highest;
}

}  // namespace cellbatch
