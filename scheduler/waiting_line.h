// The requests of one lane that wait to join, oldest first. The manager's alone; nothing allocates after
// construction.
#ifndef CELLBATCH_SCHEDULER_WAITING_LINE_H_
#define CELLBATCH_SCHEDULER_WAITING_LINE_H_

#include <cstdint>
#include <memory>

#include "scheduler/request_block.h"

namespace cellbatch {

// An array with holes where one was cancelled.
class WaitingLine {
 public:
  explicit WaitingLine(int max_requests);
  void Push(RequestBlock& block);
  RequestBlock* Head();  // null: empty
  void PopHead();        // REQUIRES: Head() was just seen
  void Remove(RequestBlock& block);
  // Of those who come next, stage by stage: the head of the block, its body, what it starts with.
  void Prefetch() const;
  int64_t size() const { return size_; }
  int64_t cells() const { return cells_; }  // nodes of them all

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
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_WAITING_LINE_H_
