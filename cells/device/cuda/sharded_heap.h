// A heap in one stretch of memory, for many threads at once. A block that is freed is kept for the next of its size where
// its thread looks first; what one shard has too much of goes where all look, and everything is brought together again
// before anybody is refused.
//
//   Allocate   shard: at most two chains ---> depot: chains ---> tree of free pieces (Boost.Interprocess): here neighbours
//   Free       of free blocks, by size   <---  by size, for all       become one again
//
//   most           the shard's lock, rarely waited for: some 20 ns
//   once a chain   the depot's of that size as well
//   at a new peak  the tree's: up to a microsecond, one thread at a time; so does each block of more than 256 KiB. Of
//                  those 250 k a second are 64 GB/s, as much as a GPU's bus.
//
// Sizes of blocks are 4 for each doubling, so a fifth of one may be wasted, and a line (64 bytes) before each is the tree's.
// Of each size what once was the most at a time stays kept, until the tree has nothing for somebody: that call gives it one
// chain after the other until there is room, up to a microsecond a block, while others go on; and if that was not enough,
// what they have kept since, with every lock held. So Allocate returns null only if at one moment of the call nothing was
// kept anywhere and the tree had no piece so large.
//
// Any thread. Locks in this order: shards by number, the tree, one depot; no block is on its way unless a shard is locked.
#ifndef CELLBATCH_CELLS_DEVICE_CUDA_SHARDED_HEAP_H_
#define CELLBATCH_CELLS_DEVICE_CUDA_SHARDED_HEAP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace cellbatch::cuda {

class ShardedHeap {
 public:
  // Threads that name different ones do not meet. Anything that is mostly so is a good number: a CPU's.
  static constexpr int kShards = 32;

  // Of memory that begins at a line, outlives the heap, and is written by it wherever no block is.
  // REQUIRES: bytes >= 4096.
  ShardedHeap(std::byte* memory, int64_t bytes);
  ~ShardedHeap();  // blocks need not be free

  // Whole lines; null: there is no more.
  std::byte* Allocate(int64_t bytes, int shard);
  // `bytes` as asked for; any shard.
  void Free(std::byte* block, int64_t bytes, int shard);
  // In the tree, once all that was kept is back there: as slow as that. For tests.
  int64_t FreeBytes();

 private:
  static constexpr int kSizes = 44;  // 64, 128, 192, 256, 320, .. 512, 640, .. 256 KiB

  // A free block; of the first of a chain, also which chain is next.
  struct FreeBlock {
    FreeBlock* next = nullptr;
    FreeBlock* next_chain = nullptr;
  };
  // Of one size, in one shard.
  struct Kept {
    FreeBlock* blocks = nullptr;
    int count = 0;               // of `blocks`; at most a chain
    FreeBlock* chain = nullptr;  // a whole one, or nothing
  };
  struct alignas(128) Shard {
    std::mutex mutex;
    std::array<Kept, kSizes> kept;
  };
  // Of one size. REQUIRES of both: a shard is locked.
  struct alignas(64) Depot {
    void Put(FreeBlock* chain);
    FreeBlock* Take();  // null: there is none
    std::mutex mutex;
    FreeBlock* chains = nullptr;
  };
  class Tree;
  class StepLocks;
  class AllLocks;

  FreeBlock* TakeKept(Shard& shard, int size);
  void Keep(Shard& shard, int size, FreeBlock* block);
  std::byte* AllocateInTree(int64_t bytes, int shard);
  // Gives the tree what is kept, a list at a time, until `enough()`, which is asked after each; false: it never was.
  // `lock(shard)` holds the locks of one step, of which those of a depot are taken by `shard`.
  template <typename Lock, typename Enough>
  bool GiveBack(int shard, Lock lock, Enough enough);
  void GiveBackList(FreeBlock* list);

  std::array<Shard, kShards> shards_;
  std::array<Depot, kSizes> depots_;
  std::unique_ptr<Tree> tree_;
  int64_t most_;  // bytes that a block may have
};

}  // namespace cellbatch::cuda

#endif  // CELLBATCH_CELLS_DEVICE_CUDA_SHARDED_HEAP_H_
