// Ready subgraphs of one worker and cell type, in a lane whose requests have priority levels: in the order of when they
// count as having become ready. That is when they did, but not before their request counts as having arrived
// (RequestBlock::ripe_at): `priority_ageing` tasks of the lane later than it did for each level below the most urgent.
// So nothing of a request is passed over by what arrives after that, and once it has been here so long it is nobody's
// junior.
//
//   Push --> heap of keys --Stage: the first of them--> the queue's FIFO --a task is formed--> gone
//               ^                                            |
//               +------------------ Unstage: the rest -------+
//
// The FIFO is empty but while a task is formed, so forming knows nothing of priorities; it counts who waits here, too, so
// neither do those who ask how many are ready. O(log n) a subgraph. The manager's alone; nothing allocates after
// construction unless ready subgraphs outnumber the capacity given.
#ifndef CELLBATCH_SCHEDULER_READY_URGENT_FIRST_H_
#define CELLBATCH_SCHEDULER_READY_URGENT_FIRST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduler/ready/priority_heap.h"
#include "scheduler/ready/ready_fifo.h"

namespace cellbatch {

class UrgentFirst {
 public:
  // `clock`: tasks of the lane submitted so far, on all workers.
  UrgentFirst(ReadyFifo& fifo, int32_t capacity, int batch_limit, const uint64_t* clock);

  void Push(NodeRecord& record, RequestBlock& block);
  // The first; a null record: empty.
  ReadyEntry Head() const { return heap_.empty() ? ReadyEntry{} : heap_.First(); }
  void Remove(NodeRecord& record);

  // Before and after a task is formed: at most so many go into the FIFO, in their order; who is still there comes back.
  void Stage(int64_t most);
  void Unstage();
  // While staged: how many, and their keys, in order.
  size_t num_staged() const { return staged_.size(); }
  uint64_t staged_key(size_t i) const { return staged_[i].key; }

  // What a subgraph of that request has for a key if it becomes ready now. A request lives for fewer than 2^31 tasks.
  uint64_t KeyNow(const RequestBlock& block) const;

  const PriorityHeap& heap() const { return heap_; }  // for checks

 private:
  ReadyFifo& fifo_;
  PriorityHeap heap_;
  std::vector<PriorityHeap::Item> staged_;
  const uint64_t* const clock_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_READY_URGENT_FIRST_H_
