#include "cells/device/cpu/split_costs.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace cellbatch {
namespace {

using Clock = std::chrono::steady_clock;

// What no team is better than, and what a helper is waited for: of one that takes longer, somebody has its core.
constexpr double kLeastForkNs = 100, kMostForkNs = 20e3;
constexpr double kLeastWakeNs = 2e3, kMostWakeNs = 500e3;
constexpr int kForks = 200, kWakes = 8;

double NsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// Nanoseconds of a step of one block a thread, in which those that are there wait until `enough` are, but for `most_ns` at
// most: nobody waits for a helper that does not come. Less than nothing: they were too few.
double NsUntilThere(CoreTeam& team, int enough, double most_ns, bool wake) {
  std::atomic<int> there{0};
  const auto start = Clock::now();
  team.Run(team.threads(), wake, [&](int, int) {
    there.fetch_add(1, std::memory_order_relaxed);
    while (there.load(std::memory_order_relaxed) < enough && NsSince(start) < most_ns) {
    }
  });
  const double ns = NsSince(start);
  return ns < most_ns ? ns : -1;
}

// The lower quartile, for neighbours only make it longer. Nothing: it never came to that.
std::optional<double> LowerQuartile(std::vector<double> ns) {
  ns.erase(std::remove_if(ns.begin(), ns.end(), [](double one) { return one < 0; }), ns.end());
  if (ns.empty()) return std::nullopt;
  const auto quartile = ns.begin() + static_cast<std::ptrdiff_t>(ns.size() / 4);
  std::nth_element(ns.begin(), quartile, ns.end());
  return *quartile;
}

std::optional<double> ForkNs(CoreTeam& team) {
  NsUntilThere(team, team.threads(), kMostWakeNs, /*wake=*/true);
  std::vector<double> ns;
  for (int i = 0; i < kForks; ++i) {
    ns.push_back(NsUntilThere(team, team.threads(), kMostForkNs, /*wake=*/false));
  }
  return LowerQuartile(std::move(ns));
}

// Until the first of those that slept is there.
std::optional<double> WakeNs(CoreTeam& team) {
  std::vector<double> ns;
  for (int i = 0; i < kWakes; ++i) {
    std::this_thread::sleep_for(team.spin() + std::chrono::microseconds(200));
    ns.push_back(NsUntilThere(team, 2, kMostWakeNs, /*wake=*/true));
  }
  return LowerQuartile(std::move(ns));
}

}  // namespace

SplitCosts MeasureSplitCosts(CoreTeam& team, double per_ns) {
  SplitCosts costs;
  costs.per_ns = per_ns;
  if (team.threads() == 1) return costs;
  costs.fork_ns = std::max(ForkNs(team).value_or(costs.fork_ns), kLeastForkNs);
  costs.wake_ns = std::max(WakeNs(team).value_or(costs.wake_ns), kLeastWakeNs);
  return costs;
}

std::string Describe(const SplitCosts& costs) {
  return fmt::format(
      "a step is split from {:.1f} us on (a fork takes {:.1f}), sleeping helpers are woken from "
      "{:.0f} us on "
      "(one takes {:.0f})",
      kForksOfAStep * costs.fork_ns * 1e-3, costs.fork_ns * 1e-3,
      kWakesOfAStep * costs.wake_ns * 1e-3, costs.wake_ns * 1e-3);
}

}  // namespace cellbatch
