// The slots of submitted requests: who may submit, what an id means, and news for it. Any thread,
// without locks.
//
//   slot word: | generation (32) | queued news (1) | expired (1) | cancelled (1) |
//
// An id is slot + generation; the generation moves on when the request is taken back, so later news meets a stranger and
// is dropped; what comes between its answer and that, the manager drops. "queued" belongs to the slot, not to the request: a
// slot's news is in the message ring at most once, which is why that ring cannot overflow.
#ifndef CELLBATCH_SCHEDULER_REQUEST_SLOTS_H_
#define CELLBATCH_SCHEDULER_REQUEST_SLOTS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "scheduler/request.h"
#include "scheduler/request_block.h"

namespace cellbatch {

class RequestSlots {
 public:
  static constexpr uint64_t kCancelled = 1, kExpired = 2, kQueued = 4, kBits = 7;

  explicit RequestSlots(int count) : count_(count), slots_(new Slot[static_cast<size_t>(count)]) {
    for (int i = 0; i < count; ++i) {
      slots_[i].word.store(uint64_t{1} << 32, std::memory_order_relaxed);
      slots_[i].next_free.store(static_cast<uint32_t>(i + 1), std::memory_order_relaxed);
    }
    slots_[count - 1].next_free.store(kNone, std::memory_order_relaxed);
    free_.store(0, std::memory_order_release);
  }
  int count() const { return count_; }

  // Any thread.
  std::optional<RequestId> Acquire() {
    uint64_t head = free_.load(std::memory_order_acquire);
    for (;;) {
      const uint32_t slot = static_cast<uint32_t>(head);
      if (slot == kNone) return std::nullopt;
      const uint32_t next = slots_[slot].next_free.load(std::memory_order_relaxed);
      if (free_.compare_exchange_weak(head, Tagged(head, next), std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
        const uint64_t word = slots_[slot].word.load(std::memory_order_acquire);
        return RequestId{slot, static_cast<uint32_t>(word >> 32)};
      }
    }
  }
  void Release(uint32_t slot) {
    std::atomic<uint64_t>& word = slots_[slot].word;
    uint64_t old = word.load(std::memory_order_relaxed);
    uint64_t next;
    do {
      const uint32_t generation = static_cast<uint32_t>(old >> 32) + 1;
      next = uint64_t{generation == 0 ? 1 : generation} << 32 | (old & kQueued);
    } while (!word.compare_exchange_weak(old, next, std::memory_order_acq_rel));
    uint64_t head = free_.load(std::memory_order_relaxed);
    do {
      slots_[slot].next_free.store(static_cast<uint32_t>(head), std::memory_order_relaxed);
    } while (!free_.compare_exchange_weak(head, Tagged(head, slot), std::memory_order_acq_rel));
  }

  // Any thread: notes `bit` for that id. True: the caller must put the slot into the message ring.
  bool SetNews(RequestId id, uint64_t bit) {
    if (id.slot >= static_cast<uint32_t>(count_)) return false;
    std::atomic<uint64_t>& word = slots_[id.slot].word;
    uint64_t old = word.load(std::memory_order_acquire);
    for (;;) {
      if (static_cast<uint32_t>(old >> 32) != id.generation || (old & bit) != 0) return false;
      if (word.compare_exchange_weak(old, old | bit | kQueued, std::memory_order_acq_rel)) {
        return (old & kQueued) == 0;
      }
    }
  }
  // The manager, for a slot that it took out of the ring: generation and bits.
  uint64_t TakeNews(uint32_t slot) {
    return slots_[slot].word.fetch_and(~kBits, std::memory_order_acq_rel);
  }

  // The submitter before its message, the manager after it.
  RequestBlock*& block(uint32_t slot) { return slots_[slot].block; }

 private:
  static constexpr uint32_t kNone = ~0u;
  struct Slot {
    std::atomic<uint64_t> word;
    std::atomic<uint32_t> next_free;
    RequestBlock* block = nullptr;
  };
  // The upper half counts changes, so that a head seen before and seen again is not mistaken.
  static uint64_t Tagged(uint64_t head, uint32_t slot) { return ((head >> 32) + 1) << 32 | slot; }

  const int count_;
  std::unique_ptr<Slot[]> slots_;
  alignas(64) std::atomic<uint64_t> free_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_REQUEST_SLOTS_H_
