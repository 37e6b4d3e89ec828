// What is ordered within one launch, as CUDA orders it: block barriers, warp barriers, fences with atomics. For AccessChecker.
//
// Threads run one after the other, so what a thread knows of another is a time: everything that the other did before it.
//
//   time 7          8 (barrier)        9 (fence of 3)     10 (barrier)
//   -----+----------+------------------+------------------+------->
//   thread 3 writes                    |                  |         a thread of this block knows all before 10;
//                                      |                  |         with thread 3's ticket, another block knows all before 8
//                                      |                  |         and what thread 3 did before 9
//
//   block barrier    all threads of the block know what any of them did or knew before
//   warp barrier     so do the lanes that met
//   fence            what the thread knows is published; what it has read by atomics, it knows from now on
//   atomic           leaves there what its thread, or a barrier before, published; takes what others left
//   arrivals         at a barrier in shared memory: who waits for it knows what those who arrived did or knew before, and what was
//                    copied in bulk to there; of who arrives when its copies are made (cp.async), it knows these alone
//
// So "write; fence; (barrier;) atomic" happens before "atomic; fence; read" of whoever drew a later ticket. CUDA's fences are
// fence.sc, for which the barrier may lie between fence and atomic. Atomics that order by themselves count as fences, too.
// Atomics of one place come one after the other: who knows of one that has read there need not know those before it, as to that
// place (ticket = 0 by who drew the last). What blocks do is not ordered otherwise, whatever order they run in.
//
// Blocks of a cluster run at once: their threads have slots, one block's behind the other's, and behind all of them so have copies
// by the barrier that tells of them. A cluster's barrier orders nothing here: what it is for, the checker knows.
//
// One thread at a time. Asking costs a few ns, but for what another block did.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_LAUNCH_ORDER_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_LAUNCH_ORDER_H_

#include <array>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/cuda_emulator/grid_runner.h"

namespace cellbatch::emulator {

// One access of a granule, in 64 bits; 0: none.
class AccessStamp {
 public:
  AccessStamp() = default;
  // `thread`: its slot. `bytes`: a bit each.
  AccessStamp(uint64_t time, unsigned thread, unsigned bytes, bool read, bool wrote)
      : bits_(time << 17 | (read ? 1u << 16 : 0u) | (wrote ? 1u << 15 : 0u) | bytes << 11 |
              thread) {}
  bool operator==(const AccessStamp&) const = default;
  bool any() const { return bits_ != 0; }
  uint64_t time() const { return bits_ >> 17; }
  unsigned thread() const { return static_cast<unsigned>(bits_ & (kMostSlots - 1)); }
  unsigned bytes() const { return static_cast<unsigned>(bits_ >> 11 & 15); }
  bool read() const { return (bits_ >> 16 & 1) != 0; }
  bool wrote() const { return (bits_ >> 15 & 1) != 0; }
  void Join(unsigned bytes) { bits_ |= uint64_t{bytes} << 11; }

 private:
  uint64_t bits_ = 0;
};

// What somebody knows of the blocks of a launch, by the order in which they run.
class KnownPast {
 public:
  bool empty() const { return blocks_.empty(); }
  bool Knows(size_t block, AccessStamp of) const;
  void LearnBlock(size_t block, uint64_t before);
  void LearnThread(size_t block, unsigned thread, uint64_t before);
  void Join(const KnownPast& other);

 private:
  struct OfBlock {
    size_t block = 0;
    uint64_t before = 0;                                 // of all its threads
    std::vector<std::pair<unsigned, uint64_t>> threads;  // of some, more: by thread
  };
  OfBlock& Of(size_t block);
  static void Learn(OfBlock& of, unsigned thread, uint64_t before);

  std::vector<OfBlock> blocks_;  // by block
};

class LaunchOrder {
 public:
  struct Place {
    unsigned block_x, block_y;
  };

  // Of so many threads a block, and blocks a cluster.
  void LaunchBegins(unsigned threads, unsigned blocks);
  // Of a cluster, whose first one has that place.
  void BlocksBegin(Place place);
  void BlockBarrier(unsigned block);
  void WarpBarrier(unsigned first, unsigned lanes);
  void Fence(unsigned thread);
  // At a barrier in shared memory. `last`: of those that are waited for.
  void Arrives(unsigned thread, const void* barrier, bool last);
  void Waited(unsigned thread, const void* barrier);
  // The slot of copies of which that barrier tells.
  unsigned SlotOfCopies(const void* barrier);
  // An atomic of `thread`, where others left what `left` is.
  void Take(unsigned thread, const KnownPast& left);
  void Leave(unsigned thread, KnownPast& left);
  void Tick() { ++now_; }

  uint64_t now() const { return now_; }
  uint64_t block_start() const { return block_start_; }
  bool IsCopy(AccessStamp stamp) const { return stamp.thread() >= slots_; }
  // Where an access of this launch was made. REQUIRES: by a thread.
  Place PlaceOf(AccessStamp stamp) const;
  unsigned ThreadOf(AccessStamp stamp) const { return stamp.thread() % threads_of_block_; }

  // Does `thread`, of the block that runs, know that access of this launch?
  bool Knows(unsigned thread, AccessStamp of) const {
    const uint64_t time = of.time();
    if (time >= block_start_) {
      const unsigned block = block_of_[thread];
      if (time < blocks_[block].barrier && block_of_[of.thread()] == block) return true;
      if (of.thread() == thread) return true;
      if (of.thread() / kWarp == thread / kWarp && time < lanes_[thread][of.thread() % kWarp]) {
        return true;
      }
      const Times& seen = seen_[thread];
      if (of.thread() < seen.size() && time < seen[of.thread()]) return true;
    }
    return KnowsByFence(thread, of);
  }

 private:
  struct OfThread {
    KnownPast published, acquired, taken;  // taken: acquired at the next fence
    bool touched = false;
  };

  using Times = std::vector<uint64_t>;  // by slot: all before; beyond its end: nothing
  struct OfArrivals {
    Times arriving, done;  // of those who have arrived; of those before, for whom one may wait
  };
  static void Join(Times& times, const Times& other);
  void JoinSeen(unsigned first, unsigned lanes);
  void JoinSeenOfBlock(unsigned block);

  bool KnowsByFence(unsigned thread, AccessStamp of) const;
  size_t ClusterOf(AccessStamp stamp) const;
  // As KnownPast calls a block of the launch's cluster of that number.
  size_t NameOf(size_t cluster, unsigned block) const { return cluster * kMostBlocks + block; }
  OfThread& Touch(unsigned thread);

  static constexpr unsigned kMostCopySlots = kMostSlots - kMostClusterThreads;
  static constexpr uint8_t kNoBlock = kMostBlocks;  // of copies
  struct OfBlock {
    uint64_t barrier = 0;           // the last one
    KnownPast published, acquired;  // of the whole block, by its barriers
  };

  uint64_t now_ = 1;  // never goes back
  uint64_t block_start_ = 0;
  unsigned threads_of_block_ = 1, blocks_of_cluster_ = 1, slots_ = 1;
  std::array<uint8_t, kMostSlots> block_of_ = {};  // by slot
  std::array<OfBlock, kMostBlocks> blocks_;
  std::vector<std::pair<uint64_t, Place>> starts_;  // of the launch's clusters
  // Of a thread, by lane of its warp: what it knows of that lane. Older than the last block barrier: nothing more.
  std::array<std::array<uint64_t, kWarp>, kMostSlots> lanes_ = {};
  std::array<OfThread, kMostSlots> threads_;
  std::vector<unsigned> touched_;                         // who has anything in threads_
  std::array<Times, kMostSlots> seen_;                    // by arrivals
  std::unordered_map<const void*, OfArrivals> arrivals_;  // of the cluster
  std::unordered_map<const void*, unsigned> copies_;      // slots, by barrier
};

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_LAUNCH_ORDER_H_
