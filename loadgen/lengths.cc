#include "loadgen/lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"

namespace cellbatch {
namespace {

constexpr int kCount = 1000;
constexpr int32_t kLongest = 330;
// Median and width for which the mean is 24 and the 99th percentile about 100, with the longest
// value put in place of the last quantile.
constexpr double kMedian = 18.34;
constexpr double kWidth = 0.727;

// The standard normal quantile, by bisection of its distribution function: exact enough for whole
// lengths, and short.
double NormalQuantile(double p) {
  double low = -10;
  double high = 10;
  while (high - low > 1e-12) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < p ? low : high) = middle;
  }
  return low;
}

}  // namespace

std::vector<int32_t> EuroparlLikeLengths() {
  std::vector<int32_t> lengths(kCount);
  for (int i = 0; i < kCount; ++i) {
    const double length = kMedian * std::exp(kWidth * NormalQuantile((i + 0.5) / kCount));
    lengths[i] = std::clamp(static_cast<int32_t>(std::lround(length)), 1, kLongest);
  }
  lengths.back() = kLongest;
  return lengths;
}

absl::StatusOr<std::vector<int32_t>> LengthsFromFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return absl::NotFoundError(fmt::format("--lengths={}: cannot be read", path));
  }
  std::vector<int32_t> lengths;
  int line_number = 0;
  for (std::string line; std::getline(file, line);) {
    ++line_number;
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) {
      continue;
    }
    const std::string word = line.substr(begin, line.find_first_of(" \t\r", begin) - begin);
    int32_t length = 0;
    if (!absl::SimpleAtoi(word, &length) || length < 1) {
      return absl::InvalidArgumentError(
          fmt::format("--lengths={}: line {} begins with \"{}\", not with a positive number", path,
                      line_number, word));
    }
    lengths.push_back(length);
  }
  if (lengths.empty()) {
    return absl::InvalidArgumentError(fmt::format("--lengths={}: holds no lengths", path));
  }
  return lengths;
}

std::vector<uint32_t> EqualIssueOrder(uint32_t size, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint32_t> permutation(size);
  std::iota(permutation.begin(), permutation.end(), 0u);
  std::vector<uint32_t> order;
  order.reserve(count + size);
  while (order.size() < count) {
    for (uint32_t left = size; left > 1; --left) {
      std::swap(permutation[left - 1], permutation[random() % left]);
    }
    order.insert(order.end(), permutation.begin(), permutation.end());
  }
  order.resize(count);
  return order;
}

}  // namespace cellbatch
