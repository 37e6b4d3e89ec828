#include "cells/device/cpu/stay_on.h"

#include <pthread.h>
#include <sched.h>

#include <exception>
#include <thread>

namespace cellbatch {

bool StayOn(absl::Span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
    CPU_SET(static_cast<size_t>(cpu), &set);
  }
  return pthread_setaffinity_np(pthread_self(), sizeof(set), &set) == 0;
}

void RunOn(absl::Span<const int> cpus, absl::FunctionRef<void()> work) {
  if (cpus.empty()) return work();
  std::exception_ptr thrown;
  std::thread([&] {
    StayOn(cpus);
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

}  // namespace cellbatch
