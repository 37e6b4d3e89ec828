// Runs a launch: blocks one after the other, the threads of a block as fibres, in orders that a seed draws. A thread gives way at
// __syncthreads, __syncwarp, shuffles, and where it waits for arrivals that are missing, and nowhere else, so that what a missing
// barrier breaks depends on the seed and is the same for the same seed. The blocks of a cluster run at once, each with shared memory
// of its own.
//
//   blocks: 3 0 2 1          threads of block 3:  7 0 2 .. | barrier | 4 1 7 .. | barrier | .. done
//           (drawn)                               (drawn)              (drawn anew)
//
// What cp.async starts is copied when its thread waits for its group, never before, so that a missing wait shows; or, where it arrives
// at a barrier by itself, when nobody else can run. So is what is copied in bulk, to each block of a cluster at a time of its own.
//
// Everything runs after the launch before it; a launch that would not (Grid::early) has findings where a block never waits.
//
// Barriers that not all threads reach are findings: those that wait go on afterwards, as nobody else will come.
//
// Denormals are flushed while it runs. One thread at a time; fibres and their stacks are kept from launch to launch. A switch
// costs some 20 ns.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_GRID_RUNNER_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_GRID_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda_emulator/kernel_object.h"

namespace cellbatch::emulator {

inline constexpr int kWarp = 32;
inline constexpr unsigned kMostThreads = 1024;           // of a block
inline constexpr unsigned kMostSharedBytes = 227 << 10;  // of a block
// Of a cluster. Slots number the threads of its blocks, one block behind the other; of a block alone, they are its threads.
inline constexpr unsigned kMostBlocks = 8, kMostClusterThreads = 1920, kMostSlots = 2048;

struct Grid {
  unsigned x = 1, y = 1;
  unsigned threads = 1;  // of a block
  unsigned shared_bytes = 0;
  // It may begin before the launch before it has ended, for which each thread waits itself (griddepcontrol.wait).
  bool early = false;
};

// Where the kernel stands that runs.
struct RunningThread {
  unsigned block_x = 0, block_y = 0, thread = 0;
  unsigned slot = 0;
  uintptr_t shared_from = 0;               // its block's shared memory
  uintptr_t stack_from = 0, stack_to = 0;  // this thread's own
  bool early = false;                      // Grid::early, and it has not waited
};

// As shim.txt numbers them.
enum AccessKind : int {
  kRead = 0,
  kWrite = 1,
  kAtomicUpdate = 2,  // reads and writes
  kAtomicLoad = 3,
  kAtomicStore = 4,
};

// Is told of every access, and of what orders accesses; by the thread that runs the grid.
class AccessObserver {
 public:
  virtual ~AccessObserver() = default;
  virtual void Accessed(const RunningThread& thread, const void* at, size_t bytes, int kind) = 0;

  // The launch is in progress until the next one begins, the block, or the blocks of a cluster, likewise. `first`: of them, whose
  // shared memory lies every kMostSharedBytes from its own on.
  virtual void LaunchBegins(const KernelObject&, const KernelFunction&, const Grid&) {}
  virtual void BlocksBegin(const RunningThread& /*first*/) {}
  // All threads of the block (of the cluster's, its number) that are not done have come to a barrier, and go on.
  virtual void BlockBarrier(unsigned /*block*/) {}
  // All of the cluster: what barriers in shared memory were begun as, everybody sees; nothing else.
  virtual void ClusterBarrier() {}
  // So have these lanes of the warp of thread `first`, at __syncwarp. Shuffles order nothing in memory.
  virtual void WarpBarrier(unsigned /*first*/, unsigned /*lanes*/) {}
  virtual void Fence(const RunningThread&) {}
  // At a barrier in shared memory. `last`: of those that are waited for.
  virtual void BarrierBegins(const RunningThread&, const void* /*barrier*/) {}
  virtual void Arrives(const RunningThread&, const void* /*barrier*/, bool /*last*/) {}
  virtual void Waited(const RunningThread&, const void* /*barrier*/) {}
  // cp.async, when it is started and when it is made: `room` bytes are written, the first `bytes` of them from there.
  virtual void CopyStarts(const RunningThread&, const void* /*to*/, size_t /*room*/,
                          const void* /*from*/, size_t /*bytes*/) {}
  virtual void CopyEnds(const RunningThread&, const void* /*to*/, size_t /*room*/,
                        const void* /*from*/, size_t /*bytes*/) {}
  // That copy of cp.async, which is made, is told of at a barrier; and then the arrival by which it and others are, `last` as in Arrives:
  // it orders nothing but these.
  virtual void CopyIsTold(const RunningThread&, const void* /*to*/, size_t /*room*/,
                          const void* /*barrier*/) {}
  virtual void CopiesArrive(const void* /*barrier*/, bool /*last*/) {}
  // A copy in bulk, by the thread that starts it, to one block of the cluster; `last`: nothing else is waited for at the barrier there.
  virtual void BulkStarts(const RunningThread&, const void* /*to*/, const void* /*from*/,
                          size_t /*bytes*/) {}
  virtual void BulkEnds(const RunningThread&, const void* /*to*/, const void* /*from*/,
                        size_t /*bytes*/, const void* /*barrier*/, bool /*last*/) {}
};

class GridRunner {
 public:
  explicit GridRunner(uint64_t seed);
  ~GridRunner();
  GridRunner(const GridRunner&) = delete;
  GridRunner& operator=(const GridRunner&) = delete;

  // Null: nobody looks. Outlives the runs. Runners that share an object at the same time are all looked at, or none.
  void set_observer(AccessObserver* observer) { observer_ = observer; }

  // `arguments`: as cuLaunchKernelEx has them. INVALID_ARGUMENT: the grid is none that a GPU runs, or there is an observer, and
  // the object is not Watched.
  absl::Status Run(const KernelObject& object, const KernelFunction& function, const Grid& grid,
                   void* const* arguments);

  // What was found so far, a line each, the oldest first; at most kMostFindings.
  const std::vector<std::string>& findings() const { return findings_; }
  // Those, and forgets them.
  std::vector<std::string> TakeFindings() { return std::exchange(findings_, {}); }
  static constexpr size_t kMostFindings = 100;

 private:
  class Fibre;
  struct Block;
  friend struct RunnerHooks;

  // To one block.
  struct BulkCopy {
    RunningThread by;
    std::byte* to;
    const void* from;
    size_t bytes;
    unsigned long long* barrier;
  };

  void RunBlocks(const Grid& grid, unsigned x, unsigned first_y);
  bool RunRound(std::vector<unsigned>& order);
  void Enter(unsigned slot);
  std::byte* SharedOf(unsigned block);
  bool IsThere(unsigned block) const;  // some of its threads are not done
  bool ReleaseBarriers();
  bool CopiesCome();
  void BulkCopyComes(size_t which);
  bool ReleaseBlocks();
  bool ReleaseCluster();
  void GoOn(unsigned block, bool at_its_barrier);
  bool ReleaseWarp(unsigned warp);
  void TellOfWarp(unsigned warp, unsigned released);
  void Find(std::string what);
  void GiveWay();

  std::mt19937_64 random_;
  AccessObserver* observer_ = nullptr;
  std::vector<std::unique_ptr<Fibre>> fibres_;  // by slot
  std::vector<std::string> findings_;
  std::vector<std::byte> shared_;  // of as many blocks as any cluster had
  // Of the launch and blocks that run.
  const KernelFunction* function_ = nullptr;
  void* const* arguments_ = nullptr;
  void** shared_place_ = nullptr;
  KernelIndex *thread_index_ = nullptr, *block_index_ = nullptr;
  unsigned threads_ = 0, blocks_ = 1, slots_ = 0;  // of a block; of a cluster
  unsigned first_y_ = 0;
  bool early_ = false;
  RunningThread running_;
  std::vector<BulkCopy> bulk_;             // that are on their way
  std::vector<unsigned long long> lanes_;  // what threads give to shuffles
};

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_GRID_RUNNER_H_
