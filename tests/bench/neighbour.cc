#include "tests/bench/neighbour.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

namespace cellbatch {
namespace {

using Clock = std::chrono::steady_clock;

void StayOn(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace

Neighbour::Neighbour(int cpu)
    : thread_([this, cpu] {
        StayOn(cpu);
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
    StayOn(cpu);
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
