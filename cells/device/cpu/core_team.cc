#include "cells/device/cpu/core_team.h"

#include <utility>

#include "cells/device/cpu/stay_on.h"
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

CoreTeam::CoreTeam(int threads, std::vector<int> cpus, std::chrono::nanoseconds spin,
                   uint32_t steps_before)
    : ranges_(threads, steps_before),
      steps_before_(steps_before),
      cpus_(std::move(cpus)),
      spin_(spin) {
  for (int t = 1; t < threads; ++t) helpers_.emplace_back([this, t] { Help(t); });
}

CoreTeam::~CoreTeam() {
  stop_.store(true);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (std::thread& t : helpers_) t.join();
}

// Takes blocks until none is left. A block taken keeps its step alive: the caller waits for done_.
void CoreTeam::RunBlocks(const HomeRanges::Step& step, int thread) {
  uint32_t own = 0;
  for (int block; (block = ranges_.TakeNext(step, thread)) >= 0; ++own) {
    block_(work_, block, thread);
  }
  if (own > 0) done_.fetch_add(own, std::memory_order_release);
  for (int i = 1; i < threads(); ++i) {
    if (done_.load(std::memory_order_relaxed) == static_cast<uint32_t>(step.blocks)) return;
    const int other = (thread + i) % threads();
    for (int block; (block = ranges_.TakeFarthest(step, other)) >= 0;) {
      block_(work_, block, thread);
      done_.fetch_add(1, std::memory_order_release);
    }
  }
}

void CoreTeam::RunErased(int blocks, bool wake, Block block, const void* work, From from) {
  if (helpers_.empty() || blocks == 1) {
    for (int b = 0; b < blocks; ++b) block(work, from == From::kLast ? blocks - 1 - b : b, 0);
    return;
  }
  block_ = block;
  work_ = work;
  done_.store(0, std::memory_order_relaxed);
  ranges_.Open(blocks, from);
  if (wake && parked_.load() > 0) {
    epoch_.fetch_add(1);
    epoch_.notify_all();
  }
  RunBlocks(ranges_.Opened(), 0);
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
    StayOn({&cpus_[static_cast<size_t>(thread)], 1});
  }
  uint32_t last_step = steps_before_;
  auto idle_since = std::chrono::steady_clock::now();
  for (int pauses = 1; !stop_.load(std::memory_order_relaxed); ++pauses) {
    const HomeRanges::Step step = ranges_.Opened();
    if (step.number != last_step) {
      RunBlocks(step, thread);
      last_step = step.number;
      idle_since = std::chrono::steady_clock::now();
    }
    Pause();
    if (pauses % kPausesPerLook != 0) continue;
    // A yield may cost a whole time slice where others compute: not in the gap between two steps.
    const auto idle = std::chrono::steady_clock::now() - idle_since;
    if (idle >= spin_ / 2) std::this_thread::yield();
    if (idle < spin_) continue;
    Park(last_step);
    idle_since = std::chrono::steady_clock::now();
  }
}

// Either this sees a new step, or Run sees a parked helper: both sides store, then load, in one total order.
void CoreTeam::Park(uint32_t last_step) {
  const uint32_t epoch = epoch_.load();
  parked_.fetch_add(1);
  if (ranges_.Opened().number == last_step && !stop_.load()) epoch_.wait(epoch);
  parked_.fetch_sub(1);
}

}  // namespace cellbatch
