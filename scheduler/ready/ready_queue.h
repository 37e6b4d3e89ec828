// What one worker may run of one cell type: a FIFO of ready subgraphs, and the chains that run already, which
// entered from the FIFO's head while fewer than max_batch ran and are in every task from then on. Where requests have
// priority levels, ready subgraphs wait in the order of these and come into the FIFO task by task (urgent_first.h).
//
// Chains may be many tasks ahead of what is done: they are in each of them, whoever joins. More than a few tasks of anything else
// would be smaller ones, for what becomes ready meanwhile would find no task to go into; and of chains that may stop, more would
// be for nothing.
//
// The manager's alone. An entry is taken out in O(1), wherever it is.
#ifndef CELLBATCH_SCHEDULER_READY_READY_QUEUE_H_
#define CELLBATCH_SCHEDULER_READY_READY_QUEUE_H_

#include <cstdint>
#include <memory>

#include "cells/check.h"
#include "scheduler/ready/height_words.h"
#include "scheduler/ready/ready_fifo.h"
#include "scheduler/ready/running_chains.h"
#include "scheduler/ready/type_shape.h"
#include "scheduler/ready/urgent_first.h"

namespace cellbatch {

class alignas(64) ReadyQueue {
 public:
  // few_tasks: that are in flight at most where they do not run ahead. `lane_tasks` counts the tasks of this queue's lane on
  // this queue's worker. `priority_clock` those on all workers;
  // null: its requests have one level. `counted`: the lane counts its nodes, and is told of each push; but for
  // lanes of one level that count in `words` alone (height_words.h), whose queues do so themselves.
  ReadyQueue(const TypeShape& shape, int batch_limit, int32_t capacity, int few_tasks,
             const uint64_t* lane_tasks, const uint64_t* priority_clock, bool counted,
             int64_t* words)
      : plain_(priority_clock == nullptr && !counted),
        words_(priority_clock == nullptr ? words : nullptr),
        lane_tasks_(lane_tasks),
        fifo_(shape, capacity),
        shape_(shape),
        chains_(shape, batch_limit),
        few_tasks_(few_tasks),
        urgent_first_(
            priority_clock == nullptr
                ? nullptr
                : std::make_unique<UrgentFirst>(fifo_, capacity, batch_limit, priority_clock)) {}

  const TypeShape& shape() const { return shape_; }
  ReadyFifo& fifo() { return fifo_; }
  const ReadyFifo& fifo() const { return fifo_; }
  RunningChains& chains() { return chains_; }
  const RunningChains& chains() const { return chains_; }
  // Null: the FIFO is all there is.
  UrgentFirst* urgent_first() { return urgent_first_.get(); }
  const UrgentFirst* urgent_first() const { return urgent_first_.get(); }

  // Nodes that could go into a task now; a chain counts as one.
  int32_t ready() const { return fifo_.nodes() + chains_.size(); }

  // A push is a push into the FIFO, and nobody else hears of it.
  bool plain() const { return plain_; }
  void PushPlain(NodeRecord& record, RequestBlock& block) {  // REQUIRES: plain()
    PushIntoFifo(record, block);
  }
  // Nobody else hears of it either, and it is counted.
  bool counts() const { return words_ != nullptr; }
  void PushCounted(NodeRecord& record, RequestBlock& block) {  // REQUIRES: counts()
    PushIntoFifo(record, block);
    const HeightPart part = HeightPartOf(shape_.is_chain(), record, record.next);
    words_[part.level] += kReadyInWord * part.nodes;
  }
  void Push(NodeRecord& record, RequestBlock& block) {
    if (urgent_first_ == nullptr) [[likely]]
      return PushIntoFifo(record, block);
    if (ready() == 0) since_ = *lane_tasks_;
    urgent_first_->Push(record, block);
  }
  // Who waits and is next; a null record: nobody.
  ReadyEntry Head() { return urgent_first_ == nullptr ? fifo_.Head() : urgent_first_->Head(); }
  // Takes a queued or running record out; returns how many of its nodes were submitted.
  int32_t Remove(NodeRecord& record) {
    if (record.state == NodeState::kRunning) return chains_.Remove(record);
    Check(record.state == NodeState::kQueued, "a record that is not in a queue is taken out");
    if (urgent_first_ != nullptr) {
      urgent_first_->Remove(record);
    } else {
      fifo_.Remove(record);
    }
    return record.next;
  }

  // A task of this queue was submitted, is done. The last one submitted: every running chain is in it.
  void TaskSubmitted(uint32_t sequence) {
    last_sequence_ = sequence;
    ++tasks_in_flight_;
    since_ = *lane_tasks_;
  }
  void TaskRetired() { --tasks_in_flight_; }
  int32_t tasks_in_flight() const { return tasks_in_flight_; }
  // Whether one more of its tasks may be submitted, as far as it goes.
  bool MayRun() const {
    return tasks_in_flight_ < few_tasks_ || (shape_.is_chain() && chains_.num_stops() == 0);
  }
  uint32_t last_sequence() const { return last_sequence_; }
  // Of lanes whose policy picks depths: tasks in a row that left ready nodes behind for their depth.
  void TookOneDepth(bool one) { narrow_tasks_ = one && ready() > 0 ? narrow_tasks_ + 1 : 0; }
  int64_t narrow_tasks() const { return narrow_tasks_; }
  // Fairness within a lane: since how many tasks of the lane this type waits (0: nothing ready).
  int64_t waited() const { return ready() == 0 ? 0 : static_cast<int64_t>(*lane_tasks_ - since_); }

  // Visits every entry (who waits, then running). For failures and checks.
  template <typename Visit>
  void ForEach(Visit visit) const {
    fifo_.ForEach(visit);
    if (urgent_first_ != nullptr) {
      for (const PriorityHeap::Standing& s : urgent_first_->heap().InOrder()) visit(s.item.entry);
    }
    for (int32_t slot = 0; slot < chains_.size(); ++slot) visit(chains_.chain(slot));
  }

 private:
  void PushIntoFifo(NodeRecord& record, RequestBlock& block) {
    if (ready() == 0) since_ = *lane_tasks_;
    fifo_.Push(record, block);
  }

  // All that a push touches, on one line: it happens once for every subgraph.
  const bool plain_;
  int64_t* const words_;
  const uint64_t* const lane_tasks_;
  uint64_t since_ = 0;
  ReadyFifo fifo_;
  const TypeShape shape_;
  RunningChains chains_;
  const int32_t few_tasks_;
  int32_t tasks_in_flight_ = 0;
  uint32_t last_sequence_ = 0;
  int64_t narrow_tasks_ = 0;
  const std::unique_ptr<UrgentFirst> urgent_first_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_READY_READY_QUEUE_H_
