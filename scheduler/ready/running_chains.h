// The chains of one worker and cell type that run: dense arrays, one slot a chain, so that a step of all of them
// is a few vector loops.
//
//   slots     out   prev   in[k]   stride[k]   event  ...     k: inputs that are not the carry
//             40    0      7       1           step at which somebody must look: end, or a return
//
// A chain's ring of rows is walked by out + 1, or begin when that is end. Enter and Leave cost O(1); a chain knows
// its slot (NodeRecord::position). The manager's alone; nothing allocates after construction.
#ifndef CELLBATCH_SCHEDULER_READY_RUNNING_CHAINS_H_
#define CELLBATCH_SCHEDULER_READY_RUNNING_CHAINS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "scheduler/ready/ready_entry.h"
#include "scheduler/ready/type_shape.h"

namespace cellbatch {

class RunningChains {
 public:
  RunningChains(const TypeShape& shape, int batch_limit);  // of a type without chains: always empty

  int32_t size() const { return size_; }
  int32_t num_stops() const { return num_stops_; }  // chains that may stop early
  ReadyEntry chain(int32_t slot) const { return {records_[slot], blocks_[slot]}; }

  // REQUIRES: size() < batch_limit; every row is known. From node record.next on.
  void Enter(NodeRecord& record, RequestBlock& block);
  // The last slot's chain takes its place. Returns how many of its nodes were submitted.
  int32_t Leave(int32_t slot);
  int32_t Remove(const NodeRecord& record);  // the same, by the chain
  // Visits the slots of chains that have had their place for `tasks` tasks and more, until `most` of them have left:
  // `leave(slot)` calls Leave. From the back, so that slots to come stay what they were. One pass over the slots,
  // and none while no chain can be due.
  template <typename LeaveSlot>
  void GiveWay(int64_t tasks, int32_t most, LeaveSlot leave) {
    const uint32_t turn = static_cast<uint32_t>(tasks);
    if (size_ == 0 || step_ - oldest_entry_ < turn) return;
    uint32_t oldest = 0;
    for (int32_t slot = size_ - 1; slot >= 0; --slot) {
      const uint32_t held = step_ - entered_step_[slot];
      if (held >= turn && most > 0) {
        --most;
        leave(slot);
      } else {
        oldest = std::max(oldest, held);
      }
    }
    oldest_entry_ = step_ - oldest;
  }

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
  // Of a slot in events(): the node that the step just made. Then says when to look again.
  int32_t NodeInStep(int32_t slot) const {
    return static_cast<int32_t>(step_ - 1 - first_step_[slot]);
  }
  void SetEvent(int32_t slot, int32_t node);
  void EventsSeen();  // after all of them: finds the next step with an event
  // The node after the last submitted one.
  int32_t NextNode(int32_t slot) const { return static_cast<int32_t>(step_ - first_step_[slot]); }

  [[gnu::always_inline]] void PrefetchChain(int32_t slot) const {
    __builtin_prefetch(records_[slot], 1);
    __builtin_prefetch(blocks_[slot]->last_sequence, 1);
  }

 private:
  template <typename T>
  using Array = std::unique_ptr<T[]>;

  const TypeShape shape_;
  int32_t size_ = 0;
  int32_t num_stops_ = 0;
  int32_t num_events_ = 0;
  uint32_t step_ = 0;        // steps made; chains' steps are told by difference, so it may wrap
  uint32_t next_event_ = 0;  // the least of event_, if any runs
  Array<Row> out_, prev_, begin_, end_;
  uint32_t oldest_entry_ = 0;  // no chain entered before this step
  Array<uint32_t> first_step_, event_,
      entered_step_;  // steps: of node 0; of the next event; first run here
  std::array<Array<Row>, kMaxInputs> in_, stride_;
  Array<NodeRecord*> records_;
  Array<RequestBlock*> blocks_;
  Array<int32_t> events_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_READY_RUNNING_CHAINS_H_
