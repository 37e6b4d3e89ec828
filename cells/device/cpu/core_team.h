// The cores of one CPU device: the worker's own thread and helpers that pull blocks of one step from a shared
// counter. A core that is slow, or was taken away, takes fewer blocks; a helper that is not running takes none.
//
//   word_   [ number of blocks | next block ]     one fetch_add takes a block, whoever comes
//   done_   blocks finished                       the caller waits for all of them, never for a helper to turn up
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

namespace cellbatch {

class CoreTeam {
 public:
  // `threads` counts the caller. Helper i is pinned to cpus[i] where that is given and permitted (0: the caller's).
  CoreTeam(int threads, std::vector<int> cpus, std::chrono::nanoseconds spin);
  ~CoreTeam();
  CoreTeam(const CoreTeam&) = delete;
  CoreTeam& operator=(const CoreTeam&) = delete;

  int threads() const { return static_cast<int>(helpers_.size()) + 1; }

  // Calls work(block, thread) once for each block in [0, blocks), thread in [0, threads()); returns when all are done.
  template <typename Work>
  void Run(int blocks, bool wake, const Work& work) {
    RunErased(
        blocks, wake,
        [](const void* w, int block, int thread) { (*static_cast<const Work*>(w))(block, thread); },
        &work);
  }

  // Pins the calling thread to `cpu`; false where that is not permitted.
  static bool PinThisThread(int cpu);

 private:
  using Block = void (*)(const void* work, int block, int thread);

  void RunErased(int blocks, bool wake, Block block, const void* work);
  void Pull(int thread);
  void Help(int thread);
  void Park();
  bool HasWork() const;

  // Each on a cache line of its own, by distance rather than alignment: a team may stand on the stack.
  static constexpr size_t kApart = 128;
  std::byte before_word_[kApart];
  std::atomic<uint64_t> word_{0};
  std::byte before_done_[kApart];
  std::atomic<uint32_t> done_{0};
  std::byte before_epoch_[kApart];
  std::atomic<uint32_t> epoch_{0};  // parked helpers wait for it to move
  std::atomic<int> parked_{0};
  std::atomic<bool> stop_{false};
  Block block_ = nullptr;  // written before word_ says there is work, read after a block was taken
  const void* work_ = nullptr;
  const std::vector<int> cpus_;
  const std::chrono::nanoseconds spin_;
  std::vector<std::thread> helpers_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_CORE_TEAM_H_
