// The chains of one worker and cell type that run: dense arrays, one slot a chain, so that a step of all of them
// is a few vector loops.
//
//   slots     out   prev   in[k]   stride[k]     k: inputs that are not the carry
//             40    0      7       1
//
// Besides, a chain has an event (event_wheel.h): the step at which somebody must look at it. That is its end, a return,
// or the end of its turn: a place is a chain's own for a turn of so many steps, then it is *due*, and whoever waits may
// have it (AnyDue).
//
// Where sequences are padded (policy/whole_graphs.h), a chain keeps its place after its last node, as padding: till as many
// nodes as PadTo said are computed, those that follow read row 0 and write the table's trash row.
//
// A chain's ring of rows is walked by out + 1, or begin when that is end. Enter and Leave cost O(1); a chain knows
// its slot (NodeRecord::position). The manager's alone; nothing allocates after construction.
#ifndef CELLBATCH_SCHEDULER_READY_RUNNING_CHAINS_H_
#define CELLBATCH_SCHEDULER_READY_RUNNING_CHAINS_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "scheduler/ready/event_wheel.h"
#include "scheduler/ready/ready_entry.h"
#include "scheduler/ready/type_shape.h"

namespace cellbatch {

class RunningChains {
 public:
  RunningChains(const TypeShape& shape, int batch_limit);  // of a type without chains: always empty

  int32_t size() const { return size_; }
  int32_t num_stops() const { return num_stops_; }  // chains that may stop early
  ReadyEntry chain(int32_t slot) const { return places_[slot].entry; }

  // REQUIRES: size() < batch_limit; every row is known. From node record.next on. turn: > 0, steps until it is due.
  void Enter(NodeRecord& record, RequestBlock& block, int64_t turn);
  // The last slot's chain takes its place. Returns how many of its nodes were submitted.
  int32_t Leave(int32_t slot);
  int32_t Remove(const NodeRecord& record);  // the same, by the chain
  int32_t num_due() const { return num_due_; }
  absl::Span<const int32_t> due() const { return {due_.get(), static_cast<size_t>(num_due_)}; }
  // REQUIRES: num_due() > 0. The slot of one that is due.
  int32_t AnyDue() const { return due_[0]; }

  // From now on chains are computed up to that many nodes; 0: to their own last one. trash: of the output's table.
  void PadTo(int32_t nodes, Row trash) {
    padded_to_ = nodes;
    trash_ = trash;
  }
  int32_t padded_to() const { return padded_to_; }
  int32_t num_padding() const { return num_padding_; }  // chains that ended, and are padding
  // Of a slot in events(), whose last node the step just made. REQUIRES: padded_to() nodes are more than that.
  void Pad(int32_t slot);

  // One step of all chains: the row of each input and of the output, by slot. Then the slots whose event is now are
  // in events() and the step is over.
  struct StepRows {
    std::array<Row*, kMaxInputs> inputs;
    Row* outputs;
  };
  void Step(const StepRows& rows);
  absl::Span<const int32_t> events() const {
    return {events_.get(), static_cast<size_t>(num_events_)};
  }
  // Of a slot in events(): the node that the step just made. Each of them is looked at again, from `node` on, or
  // leaves; another slot's chain moves when one leaves.
  int32_t NodeInStep(int32_t slot) const { return NextNode(slot) - 1; }
  void LookAgain(int32_t slot, int32_t node) {
    wheel_.Remove(slot);
    SetEvent(slot, node);
  }
  // The node after the last submitted one; of padding, as if its nodes were the chain's.
  int32_t NextNode(int32_t slot) const {
    return static_cast<int32_t>(step_ - places_[slot].first_step);
  }

  [[gnu::always_inline]] void PrefetchChain(int32_t slot) const {
    __builtin_prefetch(places_[slot].entry.record, 1);
    __builtin_prefetch(places_[slot].entry.block->last_sequence, 1);
  }

 private:
  template <typename T>
  using Array = std::unique_ptr<T[]>;

  // What a step does not touch.
  struct Place {
    ReadyEntry entry;
    uint32_t first_step;  // of node 0
    uint32_t turn_end;    // the last step of its turn
    int32_t due_at;       // its place in due_, or -1
  };

  void SetEvent(int32_t slot, int32_t node);
  void TurnEnded(int32_t slot);
  void Forget(int32_t slot);  // it is due no longer
  bool IsPadding(int32_t slot) const { return num_padding_ > 0 && begin_[slot] == trash_; }
  void ReadZeros();

  const TypeShape shape_;
  int32_t size_ = 0;
  int32_t num_stops_ = 0;
  int32_t num_due_ = 0;
  int32_t num_events_ = 0;
  int32_t num_padding_ = 0, padded_to_ = 0;
  Row trash_ = kZeroRow;
  uint32_t step_ = 0;  // steps made; chains' steps are told by difference, so it may wrap
  Array<Row> out_, prev_, begin_, end_;
  std::array<Array<Row>, kMaxInputs> in_, stride_;
  Array<Place> places_;
  EventWheel wheel_;
  Array<int32_t> events_, due_;  // slots
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_READY_RUNNING_CHAINS_H_
