// Requests to tell of (done, or new words) on their way from the manager to one responder. Holds as many
// as there are request slots, and a request is in it at most once (untaken: RequestBlock::mail), so it
// cannot overflow.
//
//   manager: Put, Put, ... Publish (one release store a step)       responder: Take (one acquire load)
#ifndef CELLBATCH_SCHEDULER_OUTBOX_H_
#define CELLBATCH_SCHEDULER_OUTBOX_H_

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "cells/check.h"

namespace cellbatch {

template <typename T>
class Outbox {
 public:
  explicit Outbox(size_t slots) : mask_(std::bit_ceil(slots) - 1), entries_(new T[mask_ + 1]) {}

  // The manager. True from Publish if anything new is there.
  void Put(T entry) { entries_[next_++ & mask_] = entry; }
  bool Publish() {
    if (next_ == published_.load(std::memory_order_relaxed)) return false;
    published_.store(next_, std::memory_order_release);
    return true;
  }

  // The responder: how many entries lie ready; the i-th of them; and letting go of the first n.
  size_t ready() const { return published_.load(std::memory_order_acquire) - taken_; }
  T entry(size_t i) const { return entries_[(taken_ + i) & mask_]; }
  void Drop(size_t n) { taken_ += n; }
  // For its own use: how long what it took was here, a mean of the last dozen; and how often it sleeps
  // without being woken before it parks.
  void Took(int64_t ns) { mean_took_ns_ += (ns - mean_took_ns_) / 8; }
  int64_t mean_took_ns() const { return mean_took_ns_; }
  void SetNaps(int naps) { naps_ = naps; }
  bool TakeNap() { return naps_ > 0 && naps_-- > 0; }

 private:
  const size_t mask_;
  std::unique_ptr<T[]> entries_;
  alignas(64) uint64_t next_ = 0;                    // manager's
  alignas(64) std::atomic<uint64_t> published_ = 0;  // manager writes
  alignas(64) uint64_t taken_ = 0;                   // responder's
  int naps_ = 0;                                     // responder's
  int64_t mean_took_ns_ = 0;                         // responder's
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OUTBOX_H_
