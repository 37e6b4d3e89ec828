// How a request leaves: drained, answered, between two pieces, cancelled.
#include <bit>

#include "cells/check.h"
#include "scheduler/request_processor.h"

namespace cellbatch {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

// Nothing more will be submitted: waits for one unfinished task after the other, then leaves.
void RequestProcessor::Drain(RequestBlock& block) {
  if (block.has_facts && block.state == RequestState::kRunning) [[unlikely]]
    lanes_[Index(block.lane)]->nodes()->Left(block);
  block.state = RequestState::kDraining;
  for (uint32_t left = block.touched; left != 0; left &= left - 1) {
    const int w = std::countr_zero(left);
    const uint32_t sequence = block.last_sequence[w];
    if (Passed(w, sequence)) continue;
    TaskNotes& notes = *workers_[Index(w)].ring->SlotInFlight(sequence).notes;
    block.next_leaver = notes.leavers;
    notes.leavers = &block;
    return;
  }
  block.next_leaver = leaving_;
  leaving_ = &block;
}

// The last of every operation: who was found to have nothing left leaves, and is answered. From then on it is its
// taker's, so nothing that looks at requests may come after.
void RequestProcessor::LetLeave() {
  while (leaving_ != nullptr) {
    RequestBlock& block = *leaving_;
    leaving_ = block.next_leaver;
    Leave(block);
  }
}

void RequestProcessor::ReleaseRows(Lane& lane, RequestBlock& block) {
  if (block.memory < 0) return;
  lane.loaded(block.memory)
      .arena->Release(block.slot, absl::MakeConstSpan(block.counts(), Index(block.num_tables)),
                      absl::MakeConstSpan(block.bases(), Index(block.num_tables)));
  block.memory = -1;
}

void RequestProcessor::CountNodes(RequestBlock& block) {
  if (block.outcome == Outcome::kOk && !block.has_stops) {
    block.nodes_executed += block.num_nodes;
    return;
  }
  for (int32_t i = 0; i < block.num_records; ++i) {
    const NodeRecord& r = block.records[i];
    block.nodes_executed += r.next;
    if (!r.has_stop) continue;
    const int32_t stopped_at = block.info(r).stopped_at;
    if (stopped_at >= 0) block.overrun_nodes += r.next - 1 - stopped_at;
  }
}

// All that was submitted of it is done.
void RequestProcessor::Leave(RequestBlock& block) {
  CountNodes(block);
  if (block.grows && block.outcome == Outcome::kOk) {
    Pause(block);
  } else {
    Finish(*lanes_[Index(block.lane)], block);
  }
}

// It is done, and is answered, unless its batch leaves together: then it waits for those of it that are not.
void RequestProcessor::Finish(Lane& lane, RequestBlock& block) {
  const bool waits = lane.batch() != nullptr && lane.batch()->leaves_together();
  if (!waits || block.outcome != Outcome::kOk) [[likely]]
    return Answer(block);
  block.state = RequestState::kDraining;
  lane.batch()->Park(block);
  LetBatchLeave(lane);
}

// Once those who are done are all that is left of it.
void RequestProcessor::LetBatchLeave(Lane& lane) {
  if (lane.batch() == nullptr || lane.batch()->parked() < lane.running_requests()) [[likely]]
    return;
  for (RequestBlock* b = lane.batch()->TakeParked(); b != nullptr;) {
    RequestBlock* const next = b->next_leaver;
    Answer(*b);
    b = next;
  }
}

void RequestProcessor::Pause(RequestBlock& block) {
  block.state = RequestState::kPaused;
  sink_.Tell(block, RequestBlock::kPieceDone);
}

void RequestProcessor::Continue(RequestBlock& block, bool failed) {
  Check(block.state == RequestState::kPaused, "a request goes on that was not paused");
  if (block.lane < 0) {
    Refuse(block, block.outcome);
    return;
  }
  Lane& lane = *lanes_[Index(block.lane)];
  if (failed && block.outcome == Outcome::kOk) block.outcome = Outcome::kBadGraph;
  if (block.outcome != Outcome::kOk || block.next_piece == nullptr) {
    Finish(lane, block);
    return;
  }
  block.AdoptNextPiece();
  block.state = RequestState::kRunning;
  if (lane.counts_nodes()) lane.nodes()->Joined(block);
  // Its rows are in one memory; there, whoever has least of its kind to do.
  int best = -1;
  int64_t least = 0;
  for (int w = 0; w < static_cast<int>(workers_.size()); ++w) {
    const WorkerLink& link = workers_[Index(w)];
    if (!link.alive || link.memory != block.memory) continue;
    int64_t ready = 0;
    for (int32_t type : block.list(block.root_types)) ready += lane.queue(w, type).ready();
    if (best >= 0 && ready >= least) continue;
    best = w;
    least = ready;
  }
  Check(best >= 0, "a request goes on in a memory that no device computes on");
  block.home = static_cast<int8_t>(best);
  for (int32_t root : block.list(block.roots)) Queue(lane, block.records[root], block, best);
}

void RequestProcessor::Answer(RequestBlock& block) {
  Lane& lane = *lanes_[Index(block.lane)];
  ReleaseRows(lane, block);
  lane.RequestLeft();
  Refuse(block, block.outcome);
  LetBatchLeave(lane);
}

void RequestProcessor::Refuse(RequestBlock& block, Outcome outcome) {
  block.outcome = outcome;
  block.state = RequestState::kAnswered;
  present_.Remove(block.slot);
  sink_.Answer(block);
}

void RequestProcessor::Cancel(RequestBlock& block, Outcome outcome) {
  if (block.lane < 0) return;  // cancelled before
  Lane& lane = *lanes_[Index(block.lane)];
  if (block.state == RequestState::kWaiting) {
    lane.LeaveLine(block);
    Refuse(block, outcome);
    return;
  }
  Withdraw(block, outcome);
  LetLeave();
  LetBatchLeave(lane);  // they may have waited for nobody else
}

// Of a request that joined: out of the queues. Answers nobody: others may still be looked at.
void RequestProcessor::Withdraw(RequestBlock& block, Outcome outcome) {
  Lane& lane = *lanes_[Index(block.lane)];
  if (block.state == RequestState::kPaused && block.outcome == Outcome::kOk) {
    block.outcome = outcome;
    ReleaseRows(lane, block);
    lane.RequestLeft();
    block.lane = -1;  // whatever becomes of the lane: its taker may take its time
  }
  if (block.state == RequestState::kDraining && block.grows && block.outcome == Outcome::kOk) {
    block.outcome = outcome;  // it would have gone on
  }
  if (block.state != RequestState::kRunning) return;
  block.outcome = outcome;
  for (int32_t i = 0; i < block.num_records; ++i) {
    NodeRecord& r = block.records[i];
    const bool queued = r.state == NodeState::kQueued || r.state == NodeState::kRunning;
    if (lane.counts_nodes() && !queued) lane.nodes()->Dropped(r);
    if (queued) {
      ReadyQueue& queue = lane.queue(r.queue_worker, r.type);
      if (r.state == NodeState::kRunning) Touch(block, r.queue_worker, queue.last_sequence());
      r.next = queue.Remove(r);
      if (lane.counts_nodes()) lane.nodes()->Dropped(r);
      r.state = NodeState::kEnded;
    } else if ((r.state == NodeState::kBlocked || r.state == NodeState::kConflict) &&
               r.position >= 0) {
      DropConflict(r);
    }
  }
  DrainEarly(block);
}

}  // namespace cellbatch
