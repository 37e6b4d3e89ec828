// RequestProcessor, second half: subgraphs that go to another worker, because it has time or because theirs is dead.
#include "cells/check.h"
#include "scheduler/request_processor.h"

namespace cellbatch {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

bool RequestProcessor::MaySteal(const ReadyEntry& entry, int thief) const {
  const NodeRecord& r = *entry.record;
  const RequestBlock& block = *entry.block;
  if (!block.copied) return block.num_roots_capped == 1;  // the whole request moves
  if (block.home != thief && !Passed(block.home, block.copy_sequence)) return false;
  return r.pin_worker < 0 || r.pin_worker == thief || Passed(r.pin_worker, r.pin_sequence);
}

int32_t RequestProcessor::Steal(Lane& lane, int type, int victim, int thief, int32_t nodes) {
  ReadyQueue& from = lane.queue(victim, type);
  int32_t taken = 0;
  while (taken < nodes) {
    const ReadyEntry e = from.Head();
    if (e.record == nullptr || !MaySteal(e, thief)) break;
    const int32_t brings = from.fifo().NodesIn(*e.record);
    if (taken > 0 && taken + brings > nodes) break;
    from.Remove(*e.record);
    if (lane.counts_nodes()) lane.nodes()->Unqueued(victim, *e.record);
    if (!e.block->copied) e.block->home = static_cast<int8_t>(thief);
    Queue(lane, *e.record, *e.block, thief);
    taken += brings;
  }
  return taken;
}

int RequestProcessor::AliveWorkerFor(int worker) const {
  const int memory = workers_[Index(worker)].memory;
  for (size_t w = 0; w < workers_.size(); ++w) {
    if (workers_[w].alive && workers_[w].memory == memory) return static_cast<int>(w);
  }
  return worker;
}

void RequestProcessor::Fence(int worker, uint64_t done_before,
                             absl::Span<RequestBlock* const> running) {
  const uint32_t done = static_cast<uint32_t>(done_before);
  const int refuge = AliveWorkerFor(worker);
  for (RequestBlock* block : running) {
    if (block->state == RequestState::kAnswered || block->lane < 0) continue;
    Lane& lane = *lanes_[Index(block->lane)];
    bool lost = refuge == worker && block->memory == workers_[Index(worker)].memory;
    if (block->state == RequestState::kPaused) {  // its records are its taker's
      if (lost) Withdraw(*block, Outcome::kDeviceFailed);
      continue;
    }
    // What is in flight there has touched it, who awaits its stop, too; of who runs there nothing may be in flight.
    lost =
        lost || ((block->touched >> worker & 1) != 0 && Newer(block->last_sequence[worker], done));
    for (int32_t i = 0; i < block->num_records && !lost; ++i) {
      const NodeRecord& r = block->records[i];
      lost = r.state == NodeState::kRunning && r.queue_worker == worker;
    }
    if (lost) {
      if (block->state == RequestState::kDraining) {
        block->outcome = Outcome::kDeviceFailed;
      } else {
        Withdraw(*block, Outcome::kDeviceFailed);
      }
      continue;
    }
    for (int32_t i = 0; i < block->num_records; ++i) {
      NodeRecord& r = block->records[i];
      if (r.state != NodeState::kQueued || r.queue_worker != worker) continue;
      lane.queue(worker, r.type).Remove(r);
      if (lane.counts_nodes()) lane.nodes()->Unqueued(worker, r);
      if (!block->copied) block->home = static_cast<int8_t>(refuge);
      Queue(lane, r, *block, refuge);
    }
  }
  LetLeave();
  // Some may have waited for nobody but who was withdrawn.
  for (Lane* const lane : lanes_) {
    if (lane != nullptr) LetBatchLeave(*lane);
  }
}

}  // namespace cellbatch
