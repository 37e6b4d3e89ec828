// The requests of one lane that wait to join, oldest first; of a lane with priority levels as if each had come
// `priority_ageing` tasks of the lane later for each level that it is below the most urgent. The manager's alone; nothing
// allocates after construction.
#ifndef CELLBATCH_SCHEDULER_WAITING_LINE_H_
#define CELLBATCH_SCHEDULER_WAITING_LINE_H_

#include <cstdint>
#include <memory>

#include "scheduler/ready/priority_heap.h"
#include "scheduler/request_block.h"

namespace cellbatch {

// An array with holes where one was cancelled; with levels, a heap.
class WaitingLine {
 public:
  struct Priorities {
    int32_t levels = 1;
    int64_t ageing = 0;
    const uint64_t* clock = nullptr;  // tasks of the lane submitted so far, on all workers
  };
  WaitingLine(int max_requests, const Priorities& priorities);
  void Push(RequestBlock& block);
  RequestBlock* Head();  // null: empty
  void PopHead();        // REQUIRES: Head() was just seen
  void Remove(RequestBlock& block);
  // Of those who come next, stage by stage: the head of the block, its body, what it starts with.
  void Prefetch() const;
  int64_t size() const { return size_; }
  int64_t cells() const { return cells_; }                  // nodes of them all
  const PriorityHeap* heap() const { return heap_.get(); }  // for checks; null: one level

 private:
  void CloseHoles();
  const RequestBlock* Behind(uint32_t ahead) const {  // the head; null: nobody is there
    return tail_ - head_ > ahead ? line_[(head_ + ahead) & mask_] : nullptr;
  }

  uint32_t mask_;
  uint32_t head_ = 0, tail_ = 0;
  int64_t size_ = 0;
  int64_t cells_ = 0;
  std::unique_ptr<RequestBlock*[]> line_;
  const Priorities priorities_;
  const std::unique_ptr<PriorityHeap> heap_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_WAITING_LINE_H_
