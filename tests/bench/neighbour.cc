#include "tests/bench/neighbour.h"

#include <algorithm>
#include <chrono>

#include "cells/device/cpu/stay_on.h"

namespace cellbatch {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Neighbour::Neighbour(int cpu)
    : thread_([this, cpu] {
        StayOn({&cpu, 1});
        while (!stop_.load(std::memory_order_relaxed)) {
        }
      }) {}

Neighbour::~Neighbour() {
  stop_.store(true);
  thread_.join();
}

double LongestSliceSeconds(int cpu) {
  const Neighbour neighbour(cpu);
  double longest = 0;
  std::thread([&] {
    StayOn({&cpu, 1});
    const auto begin = Clock::now();
    auto last = begin;
    while (last - begin < std::chrono::seconds(1)) {
      const auto now = Clock::now();
      longest = std::max(longest, std::chrono::duration<double>(now - last).count());
      last = now;
    }
  }).join();
  return longest;
}

}  // namespace cellbatch
