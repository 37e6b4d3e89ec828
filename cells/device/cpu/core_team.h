// The cores of one CPU device: the worker's own thread and helpers that run the blocks of one step. Each has a home range
// of blocks, the same part of every step, and takes the far end of another's when its own is done (home_ranges.h).
// A core that is slow, or was taken away, runs fewer blocks; a helper that is not running takes none.
//
//   ranges_  which blocks are left, of whom       who comes takes one; the step's number says that there is a new one
//   done_    blocks finished                      the caller waits for all of them, never for a helper to turn up
//
// Helpers spin for a while after each step, yielding in its second half, and then park; waking one costs its waker some
// 10 us, so small steps do not (`wake`). With one thread there are no helpers and Run is a loop.
// Helpers flush denormals (cells/kernels/cpu/flush_denormals.h); whether the caller does is the caller's affair.
// Run: one thread at a time (the worker), allocates nothing, fork and join well under a microsecond while helpers
// spin. Everything the caller wrote before Run is seen by the blocks, and the blocks' writes by the caller after it.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_CORE_TEAM_H_
#define CELLBATCH_CELLS_DEVICE_CPU_CORE_TEAM_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "cells/device/cpu/home_ranges.h"

namespace cellbatch {

class CoreTeam {
 public:
  // `threads` counts the caller. Helper i stays on cpus[i] where that is given and permitted (0: the caller's), else where
  // who made it does.
  // `steps_before`: the number before its first step's; tests start just below where it wraps.
  CoreTeam(int threads, std::vector<int> cpus, std::chrono::nanoseconds spin,
           uint32_t steps_before = 0);
  ~CoreTeam();
  CoreTeam(const CoreTeam&) = delete;
  CoreTeam& operator=(const CoreTeam&) = delete;

  int threads() const { return ranges_.threads(); }
  std::chrono::nanoseconds spin() const { return spin_; }

  using From = HomeRanges::From;

  // Calls work(block, thread) once for each block in [0, blocks), thread in [0, threads()); returns when all are done.
  // REQUIRES: blocks <= HomeRanges::kMostBlocks.
  template <typename Work>
  void Run(int blocks, bool wake, const Work& work, From from = From::kFirst) {
    RunErased(
        blocks, wake,
        [](const void* w, int block, int thread) { (*static_cast<const Work*>(w))(block, thread); },
        &work, from);
  }

 private:
  using Block = void (*)(const void* work, int block, int thread);

  void RunErased(int blocks, bool wake, Block block, const void* work, From from);
  void RunBlocks(const HomeRanges::Step& step, int thread);
  void Help(int thread);
  void Park(uint32_t last_step);

  // Each on a cache line of its own, by distance rather than alignment: a team may stand on the stack.
  static constexpr size_t kApart = 128;
  HomeRanges ranges_;
  std::byte before_done_[kApart];
  std::atomic<uint32_t> done_{0};
  std::byte before_epoch_[kApart];
  std::atomic<uint32_t> epoch_{0};  // parked helpers wait for it to move
  std::atomic<int> parked_{0};
  std::atomic<bool> stop_{false};
  const uint32_t steps_before_;
  Block block_ = nullptr;  // written before a step is opened, read after a block of it was taken
  const void* work_ = nullptr;
  const std::vector<int> cpus_;
  const std::chrono::nanoseconds spin_;
  std::vector<std::thread> helpers_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_CORE_TEAM_H_
