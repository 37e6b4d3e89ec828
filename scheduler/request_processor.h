// The life of a request from its place in the line to the outbox: joining, readiness of what depends
// on what was submitted, stops, cancels, leaving. Only this file changes a request's state.
//
//   line --Join--> roots in the ready queues of one worker
//        --Submitted--> what the batch former reports of a task; readers of a subgraph that ended: pinned by (worker, sequence), ready at once
//                       on that worker; with unfinished predecessors on two: waits among conflicts
//        --TaskDone--> words read and told of, stops seen; who waited for that task leaves
//        --Cancel--> queues forget it at once; rows stay until the last task that touches them is done
//        --Pause--> a piece is done and another may follow: the taker's, rows kept, until Continue
//
// A node may run on worker w when each predecessor is done, or was submitted earlier to w.
// The manager's; nothing allocates after construction unless thousands of conflicts meet at once.
#ifndef CELLBATCH_SCHEDULER_REQUEST_PROCESSOR_H_
#define CELLBATCH_SCHEDULER_REQUEST_PROCESSOR_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/answer_sink.h"
#include "scheduler/lane.h"
#include "scheduler/ready/ready_queue.h"
#include "scheduler/record/schedule_tape.h"
#include "scheduler/task_facts.h"
#include "scheduler/task_ring.h"

namespace cellbatch {

// One worker as the manager sees it.
struct WorkerLink {
  TaskRing* ring;
  int memory;  // index
  bool alive = true;
  int64_t last_end_ns = 0;  // of the last of its tasks that is done
};

// A set of request slots, as bits: small enough to stay in the cache.
class SlotSet {
 public:
  explicit SlotSet(int slots) : bits_(static_cast<size_t>(slots) / 64 + 1, 0) {}
  void Add(uint32_t slot) { bits_[slot / 64] |= 1ull << slot % 64; }
  void Remove(uint32_t slot) { bits_[slot / 64] &= ~(1ull << slot % 64); }
  bool Has(uint32_t slot) const { return (bits_[slot / 64] >> slot % 64 & 1) != 0; }

 private:
  std::vector<uint64_t> bits_;
};

// A subgraph whose unfinished predecessors were on two workers when they met.
struct Conflict {
  ReadyEntry entry;
  uint32_t sequence[kMaxWorkers];
  uint32_t workers;  // bits: with an entry in `sequence` that has not passed
};

class RequestProcessor {
 public:
  // All outlive it. lanes: by RequestBlock::lane.
  // tape: is told which words stop a chain; null: nobody is.
  RequestProcessor(absl::Span<WorkerLink> workers, absl::Span<Lane* const> lanes, AnswerSink& sink,
                   int max_requests, ScheduleTape* tape = nullptr);

  // From arrival on the request is known by its slot.
  void Arrived(RequestBlock& block) { present_.Add(block.slot); }
  bool IsPresent(uint32_t slot) const { return present_.Has(slot); }

  // Reserves every row and queues the roots on `worker`. False: no rows, nothing changed.
  bool Join(Lane& lane, RequestBlock& block, int worker);
  // What that task, just submitted, means for the requests in it.
  void Submitted(Lane& lane, const TaskFacts& facts, int worker, uint32_t sequence);
  // The task is done and retired: times, words, conflicts and those who leave.
  void TaskDone(const TaskSlot& slot, int worker);
  void DrainLeavers(const TaskSlot& slot);  // the last part of TaskDone; alone for a lost task
  void SettleConflicts();
  // Waiting or running: out of line and queues; answered when its tasks are done. Draining: ignored, if
  // no piece may follow. Paused: rows go back at once; answered when its taker is done with it.
  void Cancel(RequestBlock& block, Outcome outcome);
  // The taker of a paused request is done with it: goes on with its next piece; leaves if there is none,
  // if it was cancelled meanwhile, or if extending it failed.
  void Continue(RequestBlock& block, bool failed);
  // Arrived and never in line: answered at once.
  void Refuse(RequestBlock& block, Outcome outcome);
  // Moves whole subgraphs that may run on `thief` from the head of the victim's queue: as many as `nodes` nodes
  // hold, but at least one. Returns the nodes it moved.
  int32_t Steal(Lane& lane, int type, int victim, int thief, int32_t nodes);

  // The worker's device failed after task `done_before`: it is no longer alive. Of `running` (all
  // that joined), requests with something in flight or running there fail; what only stood in its
  // queues goes to another worker of that memory, or fails too if there is none.
  void Fence(int worker, uint64_t done_before, absl::Span<RequestBlock* const> running);

  absl::Span<const Conflict> conflicts() const { return {conflicts_.data(), conflicts_.size()}; }

 private:
  void Queue(Lane& lane, NodeRecord& record, RequestBlock& block, int worker);
  void QueueWatched(Lane& lane, ReadyQueue& queue, NodeRecord& record, RequestBlock& block);
  void Start(RequestBlock& block, int worker, uint32_t sequence, TaskNotes& notes);
  void Reach(const ReadyEntry& entry, int32_t nodes, int worker, uint32_t sequence);
  void GiveWay(Lane& lane, const TaskFacts& facts, int worker);
  void StepBack(Lane& lane, const TaskFacts& facts, int worker, uint32_t sequence);
  void End(Lane& lane, NodeRecord& record, RequestBlock& block, int worker, uint32_t sequence);
  template <typename Note>
  void EndAll(Lane& lane, absl::Span<const ReadyEntry> ended, int worker, uint32_t sequence,
              Note note);
  void Release(Lane& lane, NodeRecord& reader, RequestBlock& block, int worker, uint32_t sequence);
  void MergePin(NodeRecord& reader, RequestBlock& block, int worker, uint32_t sequence);
  [[gnu::noinline, gnu::cold]] void AddConflict(NodeRecord& reader, RequestBlock& block, int worker,
                                                uint32_t sequence);
  [[gnu::noinline, gnu::cold]] Conflict& ConflictOf(const NodeRecord& record);
  [[gnu::noinline, gnu::cold]] static void WidenConflict(Conflict& c, int worker,
                                                         uint32_t sequence);
  bool Settle(size_t conflict);
  void DropConflict(NodeRecord& record);
  void ReadWords(const TaskSlot& slot, int worker);
  // True: it ran past its stop.
  bool ReadWord(const StopNode& stop, const TaskSlot& slot, int worker, uint32_t sequence);
  // Another worker's or an older number never hides a newer one.
  static void Touch(RequestBlock& block, int worker, uint32_t sequence) {
    const uint8_t bit = static_cast<uint8_t>(1u << worker);
    if ((block.touched & bit) == 0 || Newer(sequence, block.last_sequence[worker])) {
      block.last_sequence[worker] = sequence;
    }
    block.touched |= bit;
  }
  // Who is withdrawn may have no task left to wait for: its last ended no later than the last of the workers that had one.
  void DrainEarly(RequestBlock& block) {
    for (size_t w = 0; w < workers_.size() && block.first_start_ns != 0; ++w) {
      if ((block.touched >> w & 1) == 0) continue;
      block.last_end_ns = std::max(block.last_end_ns, workers_[w].last_end_ns);
    }
    Drain(block);
  }
  void Drain(RequestBlock& block);
  void CountNodes(RequestBlock& block);
  void Leave(RequestBlock& block);
  void Finish(Lane& lane, RequestBlock& block);
  void LetBatchLeave(Lane& lane);
  void LetLeave();
  void Pause(RequestBlock& block);
  void Withdraw(RequestBlock& block, Outcome outcome);
  void Answer(RequestBlock& block);
  void ReleaseRows(Lane& lane, RequestBlock& block);
  bool MaySteal(const ReadyEntry& entry, int thief) const;
  int AliveWorkerFor(int worker) const;
  static bool Newer(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }
  bool Passed(int worker, uint32_t sequence) const {
    const WorkerLink& w = workers_[static_cast<size_t>(worker)];
    return !w.alive || w.ring->Passed(sequence);
  }

  const absl::Span<WorkerLink> workers_;
  const absl::Span<Lane* const> lanes_;
  AnswerSink& sink_;
  ScheduleTape* const tape_;
  SlotSet present_;
  std::vector<Conflict> conflicts_;
  RequestBlock* leaving_ = nullptr;  // all that was submitted of them is done; by next_leaver
};

// Once for every subgraph: inlined, all of it that is common.
[[gnu::always_inline]] inline void RequestProcessor::Queue(Lane& lane, NodeRecord& record,
                                                           RequestBlock& block, int worker) {
  if (!workers_[static_cast<size_t>(worker)].alive) [[unlikely]]
    worker = AliveWorkerFor(worker);
  record.queue_worker = static_cast<int8_t>(worker);
  record.state = NodeState::kQueued;
  ReadyQueue& queue = lane.queue(worker, record.type);
  if (queue.plain()) [[likely]] {
    queue.PushPlain(record, block);
  } else if (queue.counts()) {
    queue.PushCounted(record, block);
  } else {
    QueueWatched(lane, queue, record, block);
  }
}

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_REQUEST_PROCESSOR_H_
