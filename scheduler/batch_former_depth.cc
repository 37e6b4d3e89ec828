// BatchFormer, second half: tasks of nodes of one depth, for lanes whose policy picks depths. Chains do not run there as
// others do (their next nodes lie at depths of their own), so each of their nodes is taken out of the queue by itself.
#include <algorithm>
#include <limits>

#include "scheduler/batch_former.h"
#include "scheduler/policy/policy.h"

namespace cellbatch {

int32_t BatchFormer::FormAtDepth(ReadyQueue& queue, const LoadedModel& model, int worker,
                                 int32_t max_batch, int32_t depth, TaskRing& ring) {
  Begin(queue, worker, max_batch, ring);
  const bool chain = shape_->is_chain();
  BatchedTask& task = *slot_->task;
  UrgentFirst* const urgent_first = queue.urgent_first();
  if (urgent_first != nullptr) urgent_first->Stage(std::numeric_limits<int64_t>::max());
  bool full = queue.fifo().Head().record == nullptr;  // skips what was taken out at the head
  queue.fifo().ForEach([&](const ReadyEntry& e) {
    const ReadyEntry entry = e;  // its place may be emptied
    full = full || task.num_nodes == max_batch;
    if (full) return;
    if (depth != Choice::kAnyDepth && DepthOf(entry, chain, entry.record->next) != depth) return;
    const int32_t taken = TakeAtDepth(queue, entry, max_batch - task.num_nodes);
    task.num_nodes += taken;
    full = taken == 0;
  });
  if (urgent_first != nullptr) urgent_first->Unstage();
  return Finish(model);
}

// So many of its nodes go into the task; 0: there is no room for what they bring.
int32_t BatchFormer::TakeAtDepth(ReadyQueue& queue, const ReadyEntry& entry, int32_t room) {
  NodeRecord& r = *entry.record;
  const int32_t at = slot_->task->num_nodes;
  if (!entry.block->copied && !CopyIn(*entry.block)) return 0;
  if (shape_->is_chain()) {
    EmitStep(entry, at);
    queue.fifo().Remove(r);
    if (r.next + 1 < r.length) {
      facts_.stepped.push_back({entry, r.next + 1});
    } else {
      (r.has_stop ? facts_.awaiting : facts_.ended).push_back(entry);
    }
    return 1;
  }
  const int32_t count = std::min(r.length - r.next, room);
  if (!shape_->wide) {
    EmitNarrow(entry, at, count);
  } else if (!EmitWide(entry, at, count)) {
    return 0;
  }
  Outputs(entry, at, count);
  if (r.next + count < r.length) {
    queue.fifo().TakeFromHead(count);
    facts_.partly = {entry, r.next + count};
  } else {
    queue.fifo().Remove(r);
    facts_.ended.push_back(entry);
  }
  return count;
}

// A chain's next node: it reads the row before it in the ring.
void BatchFormer::EmitStep(const ReadyEntry& entry, int32_t at) {
  const NodeRecord& r = *entry.record;
  const Row first = r.first_row + entry.block->base(shape_->out);
  if (shape_->wide) {
    EmitWide(entry, at, 1);
  } else {
    EmitNarrow(entry, at, 1);
  }
  if (r.next > 0) inputs_[shape_->carry][at] = first + (r.next - 1) % r.ring;
  const Row row = first + r.next % r.ring;
  outputs_[at] = row;
  if (r.has_stop) {
    slot_->notes->stops.push_back({entry.record, entry.block, r.next, row});
  } else if (r.info != 0) {
    CopyOut(entry, r.next, row);
  }
}

}  // namespace cellbatch
