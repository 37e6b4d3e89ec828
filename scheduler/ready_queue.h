// What one worker may run of one cell type: a FIFO of ready subgraphs, and the chains already
// running as dense arrays, one slot a chain, so that a step of all of them is a few vector loops.
//
//   FIFO    | chain | - | set of 19 | node | ...      '-': cancelled or stolen, skipped at the head
//              |
//              v   enters while fewer than max_batch run; from then on it runs in every step
//   slots     out   prev   in[k]   stride[k]   event  ...     k: inputs that are not the carry
//             40    0      7       1           step at which somebody must look: end, or a return
//
// A chain's ring of rows is walked by out + 1, or begin when that is end. An entry knows its place
// (NodeRecord::position), so taking one out costs O(1). The manager's alone. The FIFO is a ring no longer
// than it was needed since it was last empty: one that walked through all of its memory would find every
// entry cold. Nothing allocates after construction unless ready subgraphs outnumber the capacity given.
#ifndef CELLBATCH_SCHEDULER_READY_QUEUE_H_
#define CELLBATCH_SCHEDULER_READY_QUEUE_H_

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "cells/cell_type.h"
#include "scheduler/request_block.h"

namespace cellbatch {

struct ReadyEntry {
  NodeRecord* record = nullptr;
  RequestBlock* block = nullptr;
};

// GCC takes a function that only prefetches for one without effects, and drops the calls: all of these are
// always_inline.
//
// Starts loading what a record, itself here already, names: its first reader, its part of the pool.
[[gnu::always_inline]] inline void PrefetchNamed(const ReadyEntry& entry) {
  const NodeRecord& r = *entry.record;
  if (r.consumer >= 0) __builtin_prefetch(&entry.block->records[r.consumer], 1);
  if (const int32_t tail = r.tail(); tail != 0) {
    __builtin_prefetch(entry.block->pool() + tail);
    // Its last line, of one return: a tail is seldom longer than two.
    if (r.info != 0)
      __builtin_prefetch(entry.block->pool() + r.info + kNodeInfoInts + kReturnInts - 1);
  }
}

// And all readers, once its part of the pool is here, too.
[[gnu::always_inline]] inline void PrefetchReaders(const ReadyEntry& entry) {
  const NodeRecord& r = *entry.record;
  if (r.consumer >= 0) __builtin_prefetch(&entry.block->records[r.consumer], 1);
  if (r.more_consumers == 0) return;
  for (const int32_t reader : entry.block->list(r.more_consumers)) {
    __builtin_prefetch(&entry.block->records[reader], 1);
  }
}

// What the manager needs to know of a cell type to form tasks of it.
struct TypeShape {
  explicit TypeShape(const CellType& type);

  CellTypeId type;
  int num_inputs;
  std::array<TableId, kMaxInputs> in;
  std::array<bool, kMaxInputs> sums;
  int num_sums = 0;
  int carry =
      -1;  // of types that make chains; -1 too where another input sums: no chain is longer than 1
  bool wide;  // NodeRecord::wide instead of input_row
  TableId out;
  int32_t priority, min_batch;
};

// The row that input_row or a pool entry stands for, once its request has a base.
inline Row ResolveRow(const RequestBlock& block, int32_t row, TableId table) {
  if (row >= 0) [[likely]]
    return row + block.base(table);
  if (row == kReadsZero) return kZeroRow;
  const NodeRecord& from = block.records[kReadsLastOf - row];
  const int32_t node = block.info(from).stopped_at;
  return from.first_row + node % from.ring + block.base(table);
}

class ReadyQueue {
 public:
  // `lane_tasks` counts the tasks of this queue's lane on this queue's worker.
  ReadyQueue(const TypeShape& shape, int batch_limit, int32_t capacity, const uint64_t* lane_tasks);

  const TypeShape& shape() const { return shape_; }
  // Nodes that could go into a task now; a chain counts as one.
  int32_t ready() const { return fifo_nodes_ + running_; }
  int32_t fifo_nodes() const { return fifo_nodes_; }
  int32_t running() const { return running_; }
  bool is_chain() const { return shape_.carry >= 0; }

  // FIFO.
  void Push(NodeRecord& record, RequestBlock& block) {
    if (tail_ - head_ > mask_) [[unlikely]]
      Grow();
    if (fifo_nodes_ == 0) Restart();
    record.state = NodeState::kQueued;
    record.position = static_cast<int32_t>(tail_ & mask_);
    fifo_[tail_++ & mask_] = {&record, &block};
    fifo_nodes_ += NodesIn(record);
  }
  // Skips holes; a null record: empty.
  ReadyEntry Head() {
    for (; head_ != tail_; ++head_) {
      const ReadyEntry e = fifo_[head_ & mask_];
      if (e.record != nullptr) return e;
    }
    return {};
  }
  void PopHead() {  // REQUIRES: Head() was just seen
    ReadyEntry& e = fifo_[head_ & mask_];
    fifo_nodes_ -= NodesIn(*e.record);
    e.record = nullptr;
    ++head_;
  }
  // Loads what the head and the entries behind it need, ahead of time: their records, then what those name.
  // PrefetchFirst before the first one (the last task has pushed all of it out of the caches), then
  // PrefetchNext at each head.
  void PrefetchFirst() const;
  [[gnu::always_inline]] void PrefetchNext() const {
    PrefetchRecord(kRecordAhead);
    PrefetchNamed(kNamedAhead);
  }
  // `count` more nodes of the head were submitted, and it stays.
  void TakeFromHead(int32_t count) { fifo_nodes_ -= count; }
  // Takes a queued or running record out, wherever it is.
  void Remove(NodeRecord& record);

  // Dense arrays. Enter: from the FIFO's head; every row is known. Leave: swap-remove.
  void Enter(NodeRecord& record, RequestBlock& block);
  void Leave(int32_t slot);
  // One step of all running chains: row of each input and of the output, by slot. Then slots whose
  // event is now are in events() and the step is over.
  struct StepRows {
    std::array<Row*, kMaxInputs> inputs;
    Row* outputs;
  };
  void Step(const StepRows& rows);
  absl::Span<const int32_t> events() const {
    return {events_.get(), static_cast<size_t>(num_events_)};
  }
  // Of a slot in events(): the node that the step just made. Then says when to look again.
  int32_t NodeInStep(int32_t slot) const {
    return static_cast<int32_t>(step_ - 1 - first_step_[slot]);
  }
  void SetEvent(int32_t slot, int32_t node);
  void EventsSeen();  // after all of them: finds the next step with an event
  ReadyEntry chain(int32_t slot) const { return {records_[slot], blocks_[slot]}; }
  [[gnu::always_inline]] void PrefetchChain(int32_t slot) const {
    __builtin_prefetch(records_[slot], 1);
    __builtin_prefetch(blocks_[slot]->last_sequence, 1);
  }
  int32_t num_stops() const { return num_stops_; }
  // The node after the last submitted one of a running chain.
  int32_t NextNode(int32_t slot) const { return static_cast<int32_t>(step_ - first_step_[slot]); }

  // Fairness within a lane: since how many tasks of the lane this type waits (0: nothing ready).
  int64_t waited() const { return ready() == 0 ? 0 : static_cast<int64_t>(*lane_tasks_ - since_); }
  void Ran() { since_ = *lane_tasks_; }

  int32_t tasks_in_flight = 0;
  uint32_t last_sequence =
      0;  // of the last task formed of this queue: every running chain is in it

  // Visits every entry (FIFO, then running). For failures and checks.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (uint32_t i = head_; i != tail_; ++i) {
      if (fifo_[i & mask_].record != nullptr) visit(fifo_[i & mask_]);
    }
    for (int32_t slot = 0; slot < running_; ++slot) visit(chain(slot));
  }

 private:
  void Restart() {
    if (running_ == 0) since_ = *lane_tasks_;
    head_ = tail_ = 0;  // it holds holes at most
    mask_ = kFirstEntries - 1;
  }
  int32_t NodesIn(const NodeRecord& r) const { return is_chain() ? 1 : r.length - r.next; }
  void Grow();
  static constexpr uint32_t kFirstEntries = 1024;
  // In entries, at 10 ns an entry and more: about a miss to memory from one to the other, and to the head.
  static constexpr uint32_t kRecordAhead = 24, kNamedAhead = 12;
  [[gnu::always_inline]] void PrefetchRecord(uint32_t ahead) const {
    if (tail_ - head_ <= ahead) return;
    const ReadyEntry& e = fifo_[(head_ + ahead) & mask_];
    if (e.record == nullptr) return;
    __builtin_prefetch(e.record, 1);
    __builtin_prefetch(e.block->last_sequence, 1);
    if (far_bases_) __builtin_prefetch(e.block->bases() + RequestBlock::kNearBases);
  }
  [[gnu::always_inline]] void PrefetchNamed(uint32_t ahead) const {
    if (tail_ - head_ <= ahead) return;
    const ReadyEntry& e = fifo_[(head_ + ahead) & mask_];
    if (e.record != nullptr) cellbatch::PrefetchNamed(e);
  }

  const TypeShape shape_;
  const bool far_bases_;  // it reads or writes tables whose bases lie on another line of the header
  const uint64_t* const lane_tasks_;
  uint64_t since_ = 0;

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  using Fifo = std::unique_ptr<ReadyEntry[], Free>;
  static Fifo NewFifo(uint32_t entries);  // pages that are not used yet cost nothing

  uint32_t entries_;  // that there is memory for
  uint32_t mask_ = kFirstEntries - 1;
  uint32_t head_ = 0, tail_ = 0;
  int32_t fifo_nodes_ = 0;
  Fifo fifo_;

  template <typename T>
  using Array = std::unique_ptr<T[]>;
  int32_t running_ = 0;
  int32_t num_stops_ = 0;
  int32_t num_events_ = 0;
  uint32_t step_ = 0;        // steps made; chains' steps are told by difference, so it may wrap
  uint32_t next_event_ = 0;  // the least of event_, if any runs
  Array<Row> out_, prev_, begin_, end_;
  Array<uint32_t> first_step_, event_;  // steps: of node 0; of the next event
  std::array<Array<Row>, kMaxInputs> in_, stride_;
  Array<NodeRecord*> records_;
  Array<RequestBlock*> blocks_;
  Array<int32_t> events_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_READY_QUEUE_H_
