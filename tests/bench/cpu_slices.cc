#include "tests/bench/cpu_slices.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/bench/probes.h"
#include "tests/bench/report.h"

namespace cellbatch {
namespace {

double MicrosecondsOf(const std::function<void()>& run, int times) {
  const int64_t start = ProcessCpuNs();
  for (int i = 0; i < times; ++i) run();
  return 1e-3 * static_cast<double>(ProcessCpuNs() - start) / times;
}

}  // namespace

double MedianOfSlice(const std::function<void()>& run, int slice_ms) {
  constexpr double kWorthTiming = 100.0;
  const int times = std::clamp(static_cast<int>(kWorthTiming / MicrosecondsOf(run, 1)), 1, 32);
  const double slice = 1e3 * slice_ms;
  std::vector<double> samples;
  for (double spent = 0.0; spent < slice || samples.empty();) {
    const double us = MicrosecondsOf(run, times);
    spent += us * times;
    if (spent >= 0.4 * slice) samples.push_back(us);
  }
  return QuartilesOf(std::move(samples)).median;
}

}  // namespace cellbatch
