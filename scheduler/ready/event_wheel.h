// Which of the running chains somebody must look at, step by step: a wheel of buckets, each a list of slots whose step
// falls there.
//
//   step   0     1     2   ...  255         more than a turn of the wheel away: in its bucket, and passed over
//          |     |                          each time the wheel comes by, till the step is its own
//          7     2 <-> 40                   slots
//
// O(1) to add, remove and move; a step costs what is in its bucket. Steps are told by difference, so they may wrap.
// The manager's; nothing allocates after construction.
#ifndef CELLBATCH_SCHEDULER_READY_EVENT_WHEEL_H_
#define CELLBATCH_SCHEDULER_READY_EVENT_WHEEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace cellbatch {

class EventWheel {
 public:
  explicit EventWheel(int slots) : links_(new Link[static_cast<size_t>(slots)]()) {
    heads_.fill(kNone);
  }

  // REQUIRES: the slot has no event.
  void Add(int32_t slot, uint32_t step) {
    int32_t& head = heads_[step % kBuckets];
    links_[slot] = {head, kNone, step};
    if (head != kNone) links_[head].prev = slot;
    head = slot;
  }
  // REQUIRES: it has one.
  void Remove(int32_t slot) {
    const Link& link = links_[slot];
    Before(link) = link.next;
    if (link.next != kNone) links_[link.next].prev = link.prev;
  }
  // The event of `from` is that of `to` now. REQUIRES: that `to` has none.
  void Move(int32_t from, int32_t to) {
    const Link& link = links_[to] = links_[from];
    Before(link) = to;
    if (link.next != kNone) links_[link.next].prev = to;
  }
  // Writes the slots whose step it is to `slots`, which has room for all; returns how many.
  int32_t At(uint32_t step, int32_t* slots) const {
    int32_t n = 0;
    for (int32_t s = heads_[step % kBuckets]; s != kNone; s = links_[s].next) {
      slots[n] = s;
      n += links_[s].step == step ? 1 : 0;
    }
    return n;
  }

 private:
  static constexpr int32_t kNone = -1;
  static constexpr uint32_t kBuckets = 256;  // longer than most sentences, and than a turn
  struct Link {
    int32_t next, prev;  // in the bucket
    uint32_t step;
  };

  int32_t& Before(const Link& link) {
    return link.prev == kNone ? heads_[link.step % kBuckets] : links_[link.prev].next;
  }

  std::array<int32_t, kBuckets> heads_;
  std::unique_ptr<Link[]> links_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_READY_EVENT_WHEEL_H_
