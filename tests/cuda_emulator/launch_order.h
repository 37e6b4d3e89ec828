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
//   arrivals         at a barrier in shared memory: who waits for it knows what those who arrived did or knew before
//
// So "write; fence; (barrier;) atomic" happens before "atomic; fence; read" of whoever drew a later ticket. CUDA's fences are
// fence.sc, for which the barrier may lie between fence and atomic. Atomics that order by themselves count as fences, too.
// Atomics of one place come one after the other: who knows of one that has read there need not know those before it, as to that
// place (ticket = 0 by who drew the last). What blocks do is not ordered otherwise, whatever order they run in.
//
// One thread at a time. Asking costs a few ns, but for what another block did.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_LAUNCH_ORDER_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_LAUNCH_ORDER_H_

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "tests/cuda_emulator/grid_runner.h"

namespace cellbatch::emulator {

// One access of a granule, in 64 bits; 0: none.
class AccessStamp {
 public:
  AccessStamp() = default;
  // `bytes`: a bit each.
  AccessStamp(uint64_t time, unsigned thread, unsigned bytes, bool read, bool wrote)
      : bits_(time << 16 | (read ? 1u << 15 : 0u) | (wrote ? 1u << 14 : 0u) | bytes << 10 |
              thread) {}
  bool operator==(const AccessStamp&) const = default;
  bool any() const { return bits_ != 0; }
  uint64_t time() const { return bits_ >> 16; }
  unsigned thread() const { return static_cast<unsigned>(bits_ & 1023); }
  unsigned bytes() const { return static_cast<unsigned>(bits_ >> 10 & 15); }
  bool read() const { return (bits_ >> 15 & 1) != 0; }
  bool wrote() const { return (bits_ >> 14 & 1) != 0; }
  void Join(unsigned bytes) { bits_ |= uint64_t{bytes} << 10; }

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
    uint64_t before = 0;                   // of all its threads
    std::map<unsigned, uint64_t> threads;  // of some, more
  };
  std::map<size_t, OfBlock> blocks_;
};

class LaunchOrder {
 public:
  struct Place {
    unsigned block_x, block_y;
  };

  void LaunchBegins() { starts_.clear(); }
  void BlockBegins(Place place);
  void BlockBarrier();
  void WarpBarrier(unsigned first, unsigned lanes);
  void Fence(unsigned thread);
  // At a barrier in shared memory. `last`: of those that are waited for.
  void Arrives(unsigned thread, const void* barrier, bool last);
  void Waited(unsigned thread, const void* barrier);
  // An atomic of `thread`, where others left what `left` is.
  void Take(unsigned thread, const KnownPast& left);
  void Leave(unsigned thread, KnownPast& left);
  void Tick() { ++now_; }

  uint64_t now() const { return now_; }
  uint64_t block_start() const { return block_start_; }
  // Where an access of this launch was made.
  Place PlaceOf(AccessStamp stamp) const { return starts_[BlockOf(stamp)].second; }

  // Does `thread`, of the block that runs, know that access of this launch?
  bool Knows(unsigned thread, AccessStamp of) const {
    const uint64_t time = of.time();
    if (time >= block_start_) {
      if (time < barrier_ || of.thread() == thread) return true;
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

  using Times =
      std::vector<uint64_t>;  // by thread of the block: all before; beyond its end: nothing
  struct OfArrivals {
    Times arriving, done;  // of those who have arrived; of those before, for whom one may wait
  };
  static void Join(Times& times, const Times& other);
  void JoinSeen(unsigned first, unsigned lanes);

  bool KnowsByFence(unsigned thread, AccessStamp of) const;
  size_t BlockOf(AccessStamp stamp) const;
  OfThread& Touch(unsigned thread);

  uint64_t now_ = 1;  // never goes back
  uint64_t block_start_ = 0, barrier_ = 0;
  std::vector<std::pair<uint64_t, Place>> starts_;  // of the launch's blocks
  // Of a thread, by lane of its warp: what it knows of that lane. Older than the last block barrier: nothing more.
  std::array<std::array<uint64_t, kWarp>, kMostThreads> lanes_ = {};
  std::array<OfThread, kMostThreads> threads_;
  std::vector<unsigned> touched_;                         // who has anything in threads_
  std::array<Times, kMostThreads> seen_;                  // by arrivals
  std::unordered_map<const void*, OfArrivals> arrivals_;  // of the block
  KnownPast published_, acquired_;                        // of the whole block, by its barriers
};

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_LAUNCH_ORDER_H_
