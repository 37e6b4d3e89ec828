// Ready queue -> batched task: lists of row numbers, copies in of requests that start, copies out of
// what is returned. Oldest first; a chain, once running, is in every task of its queue until it ends.
//
// Never takes what it made ready itself: readers are released by the caller, after the task is
// complete (request_processor). The manager's; free; about 2 ns a chain node, 10-20 a single node.
#ifndef CELLBATCH_SCHEDULER_BATCH_FORMER_H_
#define CELLBATCH_SCHEDULER_BATCH_FORMER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "cells/device/memory.h"
#include "scheduler/ready/ready_queue.h"
#include "scheduler/task_ring.h"

namespace cellbatch {

class BatchFormer {
 public:
  explicit BatchFormer(int batch_limit);

  // Writes the ring's next task from `queue`, at most `max_batch` nodes; does not submit it. Returns
  // the number of nodes, 0 only if nothing is ready.
  int32_t Form(ReadyQueue& queue, const LoadedModel& model, int worker, int32_t max_batch,
               TaskRing& ring);
  // Of the last Form: subgraphs whose last node is in the task. Stopping chains are not among them.
  absl::Span<const ReadyEntry> finished() const { return {finished_.data(), finished_.size()}; }

 private:
  bool CopyIn(RequestBlock& block);
  void CopyOut(const ReadyEntry& entry, int32_t node, Row row);
  void FormChains(ReadyQueue& queue, int32_t max_batch);
  void FormNodes(ReadyQueue& queue, int32_t max_batch);
  void HandleEvents(RunningChains& chains);
  void NoteStops(const RunningChains& chains);
  void EmitNarrow(const ReadyEntry& entry, int32_t at, int32_t count);
  bool EmitWide(const ReadyEntry& entry, int32_t at, int32_t count);
  void Outputs(const ReadyEntry& entry, int32_t at, int32_t count);
  void LayOut(int32_t max_batch);

  std::vector<ReadyEntry> finished_;
  std::vector<ReadyEntry> singles_;

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
