#include "scheduler/offline/world/arrivals.h"

#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "cells/check.h"

namespace cellbatch {

std::vector<Arrival> PoissonArrivals(double per_second, size_t count, int32_t shapes, uint64_t seed,
                                     int32_t lane) {
  Check(per_second > 0 && shapes > 0, "arrivals of nothing, or never");
  std::mt19937_64 random(seed);
  std::vector<int32_t> order(static_cast<size_t>(shapes));
  std::iota(order.begin(), order.end(), 0);
  std::vector<Arrival> arrivals;
  arrivals.reserve(count);
  double at = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t in_turn = i % order.size();
    if (in_turn == 0) {
      // Not std::shuffle, which differs from library to library.
      for (size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[random() % k]);
    }
    const double uniform = (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
    at -= std::log(uniform) / per_second * 1e9;
    arrivals.push_back({static_cast<int64_t>(at), order[in_turn], lane});
  }
  return arrivals;
}

std::vector<Arrival> AtAnotherRate(std::vector<Arrival> arrivals, double times) {
  Check(times > 0, "a rate is more than none");
  for (Arrival& arrival : arrivals) {
    arrival.at_ns = std::llround(static_cast<double>(arrival.at_ns) / times);
  }
  return arrivals;
}

}  // namespace cellbatch
