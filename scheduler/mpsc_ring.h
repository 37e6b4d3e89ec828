// A bounded queue of many producers and one consumer that cannot overflow, because every entry
// stands for a token that its producer holds (a request slot, or that slot's news bit) and there are
// as many cells as tokens.
//
//   producers: ticket = tail++ (locked add) ; cell[ticket] = value      consumer: cell[head] -> value, 0
//
// A producer between its two steps hides those behind it for that moment; nothing is lost or
// reordered. Push: one locked instruction. Pop: one load. Nothing waits, nothing allocates.
#ifndef CELLBATCH_SCHEDULER_MPSC_RING_H_
#define CELLBATCH_SCHEDULER_MPSC_RING_H_

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "cells/check.h"

namespace cellbatch {

class MpscRing {
 public:
  explicit MpscRing(size_t tokens)
      : mask_(std::bit_ceil(tokens) - 1), cells_(new std::atomic<uint64_t>[mask_ + 1]) {
    for (size_t i = 0; i <= mask_; ++i) cells_[i].store(0, std::memory_order_relaxed);
  }

  // Any thread. `value` is not 0.
  void Push(uint64_t value) {
    const uint64_t ticket = tail_.fetch_add(1, std::memory_order_acq_rel);
    const uint64_t before = cells_[ticket & mask_].exchange(value, std::memory_order_acq_rel);
    Check(before == 0, "more entries in a ring than there are tokens");
  }

  // The consumer. 0: nothing there.
  uint64_t Pop() {
    std::atomic<uint64_t>& cell = cells_[head_ & mask_];
    const uint64_t value = cell.load(std::memory_order_acquire);
    if (value == 0) return 0;
    cell.store(0, std::memory_order_release);
    ++head_;
    return value;
  }

  // The entry `ahead` places behind the next one, if it is there already: to prefetch by.
  uint64_t Peek(size_t ahead) const {
    return cells_[(head_ + ahead) & mask_].load(std::memory_order_acquire);
  }
  bool empty() const { return Peek(0) == 0; }

 private:
  const size_t mask_;
  std::unique_ptr<std::atomic<uint64_t>[]> cells_;
  alignas(64) std::atomic<uint64_t> tail_ = 0;  // producers
  alignas(64) uint64_t head_ = 0;               // consumer
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_MPSC_RING_H_
