// Ready queue -> batched task: lists of row numbers, copies in of requests that start, copies out of
// what is returned. Oldest first; a chain, once running, is in every task of its queue until it ends, or until
// it has been in `chain_turn` of them and others wait for a place: then it goes back to the end of the queue.
// Where a lane's policy picks depths, nodes of one depth are looked for, and a chain is in one task at a time. Where
// requests have priority levels, "oldest" is by what they count as (ready/urgent_first.h), and a chain whose turn is over
// gives its place only to who goes before it.
//
// It says what the task means for requests (TaskFacts) and changes none of them.
//
// Never takes what it made ready itself: readers are released by the caller, after the task is
// complete (request_processor). The manager's; free; about 2 ns a chain node, 10-20 a single node.
#ifndef CELLBATCH_SCHEDULER_BATCH_FORMER_H_
#define CELLBATCH_SCHEDULER_BATCH_FORMER_H_

#include <cstdint>
#include <vector>

#include "cells/device/memory.h"
#include "scheduler/ready/ready_queue.h"
#include "scheduler/task_facts.h"
#include "scheduler/task_ring.h"

namespace cellbatch {

class BatchFormer {
 public:
  // chain_turn: tasks after which a running chain gives its place to who waits for one.
  BatchFormer(int batch_limit, int64_t chain_turn);

  // Writes the ring's next task from `queue`, at most `max_batch` nodes; does not submit it. Returns
  // the number of nodes, 0 only if nothing is ready.
  int32_t Form(ReadyQueue& queue, const LoadedModel& model, int worker, int32_t max_batch,
               TaskRing& ring);
  // The same in a lane whose policy picks depths: only nodes of `depth` (kAnyDepth: of all depths), oldest first; of a
  // chain one node, then it waits at the end of the queue. O(queue).
  int32_t FormAtDepth(ReadyQueue& queue, const LoadedModel& model, int worker, int32_t max_batch,
                      int32_t depth, TaskRing& ring);
  // Of the last Form.
  const TaskFacts& facts() const { return facts_; }

 private:
  void Begin(const ReadyQueue& queue, int worker, int32_t max_batch, TaskRing& ring);
  int32_t Finish(const LoadedModel& model);
  int32_t TakeAtDepth(ReadyQueue& queue, const ReadyEntry& entry, int32_t room);
  void EmitStep(const ReadyEntry& entry, int32_t at);
  bool CopyIn(RequestBlock& block);
  void MakeRoom(ReadyQueue& queue, int32_t max_batch);
  void MakeRoomByPriority(ReadyQueue& queue, int32_t free, int32_t most);
  void CopyOut(const ReadyEntry& entry, int32_t node, Row row);
  void FormChains(ReadyQueue& queue, int32_t max_batch);
  void FormNodes(ReadyQueue& queue, int32_t max_batch);
  void HandleEvents(RunningChains& chains);
  void ListStops(const RunningChains& chains);
  void EmitNarrow(const ReadyEntry& entry, int32_t at, int32_t count);
  bool EmitWide(const ReadyEntry& entry, int32_t at, int32_t count);
  void Outputs(const ReadyEntry& entry, int32_t at, int32_t count);
  void LayOut(int32_t max_batch);

  const int64_t chain_turn_;
  TaskFacts facts_;
  std::vector<ReadyEntry> singles_;
  struct Due {
    uint64_t key;
    ReadyEntry entry;
  };
  std::vector<Due> due_;  // where there are priority levels: chains whose turn is over

  // The task being formed.
  const TypeShape* shape_ = nullptr;
  const TaskSlot* slot_ = nullptr;
  int worker_ = 0;
  uint32_t sequence_ = 0;
  int32_t copies_in_ = 0, copies_out_ = 0;
  Row* inputs_[kMaxInputs] = {};
  int32_t* offsets_[kMaxInputs] = {};
  int32_t sum_room_ = 0;  // rows each summed input has room for
  Row* outputs_ = nullptr;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_BATCH_FORMER_H_
