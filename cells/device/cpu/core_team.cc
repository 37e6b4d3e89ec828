#include "cells/device/cpu/core_team.h"

#include <pthread.h>
#include <sched.h>

#include <utility>

#include "cells/check.h"
#include "cells/kernels/cpu/flush_denormals.h"

namespace cellbatch {
namespace {

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

constexpr int kPausesPerLook = 64;  // at the clock

}  // namespace

CoreTeam::CoreTeam(int threads, std::vector<int> cpus, std::chrono::nanoseconds spin)
    : cpus_(std::move(cpus)), spin_(spin) {
  Check(threads >= 1, "a team has at least the caller's thread");
  for (int t = 1; t < threads; ++t) helpers_.emplace_back([this, t] { Help(t); });
}

CoreTeam::~CoreTeam() {
  stop_.store(true);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (std::thread& t : helpers_) t.join();
}

bool CoreTeam::PinThisThread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
  CPU_SET(cpu, &set);
  return pthread_setaffinity_np(pthread_self(), sizeof(set), &set) == 0;
}

bool CoreTeam::HasWork() const {
  const uint64_t word = word_.load();
  return static_cast<uint32_t>(word) < static_cast<uint32_t>(word >> 32);
}

// Takes blocks until none is left. A block taken keeps its step alive: the caller waits for done_.
void CoreTeam::Pull(int thread) {
  while (HasWork()) {
    const uint64_t word = word_.fetch_add(1);
    const auto block = static_cast<uint32_t>(word);
    if (block >= static_cast<uint32_t>(word >> 32)) return;
    block_(work_, static_cast<int>(block), thread);
    done_.fetch_add(1, std::memory_order_release);
  }
}

void CoreTeam::RunErased(int blocks, bool wake, Block block, const void* work) {
  if (helpers_.empty() || blocks == 1) {
    for (int b = 0; b < blocks; ++b) block(work, b, 0);
    return;
  }
  block_ = block;
  work_ = work;
  done_.store(0, std::memory_order_relaxed);
  word_.store(static_cast<uint64_t>(blocks) << 32);
  if (wake && parked_.load() > 0) {
    epoch_.fetch_add(1);
    epoch_.notify_all();
  }
  Pull(0);
  for (int pauses = 1; done_.load(std::memory_order_acquire) != static_cast<uint32_t>(blocks);
       ++pauses) {
    Pause();
    if (pauses % (4 * kPausesPerLook) == 0)
      std::this_thread::yield();  // its helper may want this core
  }
}

void CoreTeam::Help(int thread) {
  const kernels::FlushDenormals flush;
  if (static_cast<size_t>(thread) < cpus_.size()) {
    PinThisThread(cpus_[static_cast<size_t>(thread)]);
  }
  auto idle_since = std::chrono::steady_clock::now();
  for (int pauses = 1; !stop_.load(std::memory_order_relaxed); ++pauses) {
    if (HasWork()) {
      Pull(thread);
      idle_since = std::chrono::steady_clock::now();
    }
    Pause();
    if (pauses % kPausesPerLook != 0) continue;
    // A yield may cost a whole time slice where others compute: not in the gap between two steps.
    const auto idle = std::chrono::steady_clock::now() - idle_since;
    if (idle >= spin_ / 2) std::this_thread::yield();
    if (idle < spin_) continue;
    Park();
    idle_since = std::chrono::steady_clock::now();
  }
}

// Either this sees the work, or Run sees a parked helper: both sides store, then load, in one total order.
void CoreTeam::Park() {
  const uint32_t epoch = epoch_.load();
  parked_.fetch_add(1);
  if (!HasWork() && !stop_.load()) epoch_.wait(epoch);
  parked_.fetch_sub(1);
}

}  // namespace cellbatch
