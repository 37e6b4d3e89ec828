// Who is first of those who wait, in a lane whose requests have priority levels (others have FIFOs, at no cost). Each has
// a key, when it counts as having come: least first, of one key who came first.
//
//   heap_   0 [ 40, a ]                  a heap of keys that lie together; `place` of an item is where in it
//           1 [ 41, c ]  2 [ 90, b ]
//
// A handle stays until its item goes. O(log n); nothing allocates while there are no more than `capacity`. The manager's
// alone.
#ifndef CELLBATCH_SCHEDULER_READY_PRIORITY_HEAP_H_
#define CELLBATCH_SCHEDULER_READY_PRIORITY_HEAP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduler/ready/ready_entry.h"

namespace cellbatch {

class PriorityHeap {
 public:
  struct Item {
    uint64_t key = 0;
    uint64_t order = 0;  // among those of one key; given by Push
    ReadyEntry entry;
  };

  explicit PriorityHeap(size_t capacity);

  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }
  int32_t Push(uint64_t key, const ReadyEntry& entry) {
    return PutBack({key, next_order_++, entry});
  }
  int32_t PutBack(const Item& item);  // one that was here before, to where it stood
  // REQUIRES: not empty.
  const ReadyEntry& First() const { return entries_[Index(heap_[0].handle)].entry; }
  Item PopFirst() { return Remove(heap_[0].handle); }
  // REQUIRES: it was given by Push or PutBack, and is still here.
  Item Remove(int32_t handle);
  const ReadyEntry& at(int32_t handle) const { return entries_[Index(handle)].entry; }
  bool Has(int32_t handle) const {
    return handle >= 0 && Index(handle) < entries_.size() && entries_[Index(handle)].place >= 0;
  }

  // In their order, and each with its handle. For checks: it sorts a copy.
  struct Standing {
    Item item;
    int32_t handle;
  };
  std::vector<Standing> InOrder() const;

 private:
  struct Node {
    uint64_t key, order;
    int32_t handle;
    bool Before(const Node& other) const {
      return key != other.key ? key < other.key : order < other.order;
    }
  };
  struct Held {
    ReadyEntry entry;
    int32_t place = -1;  // in heap_; -1: free
  };

  static size_t Index(int64_t i) { return static_cast<size_t>(i); }
  void Place(size_t at, const Node& node);
  void Up(size_t at, const Node& node);
  void Down(size_t at, const Node& node);

  std::vector<Node> heap_;
  std::vector<Held> entries_;  // by handle
  std::vector<int32_t> free_;
  uint64_t next_order_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_READY_PRIORITY_HEAP_H_
