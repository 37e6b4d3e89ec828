#include "scheduler/request_processor.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cells/check.h"

namespace cellbatch {
namespace {

constexpr size_t kConflictsReserved = 1 << 13;

size_t Index(int64_t i) { return static_cast<size_t>(i); }
bool Newer(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }

}  // namespace

RequestProcessor::RequestProcessor(
    absl::Span<WorkerLink> workers, absl::Span<Lane* const> lanes,
    absl::Span<const std::unique_ptr<Outbox<RequestBlock*>>> outboxes, int max_requests)
    : workers_(workers), lanes_(lanes), outboxes_(outboxes), present_(max_requests) {
  conflicts_.reserve(kConflictsReserved);
}

bool RequestProcessor::Join(Lane& lane, RequestBlock& block, int worker) {
  const int memory = workers_[Index(worker)].memory;
  const auto counts = absl::MakeConstSpan(block.counts(), Index(block.num_tables));
  const auto bases = absl::MakeSpan(block.bases(), Index(block.num_tables));
  if (!lane.loaded(memory).arena->Reserve(block.slot, counts, bases)) return false;
  block.memory = static_cast<int8_t>(memory);
  block.state = RequestState::kRunning;
  block.home = static_cast<int8_t>(worker);
  lane.RequestJoined();
  for (int32_t root : block.list(block.roots)) Queue(lane, block.records[root], block, worker);
  return true;
}

inline void RequestProcessor::Queue(Lane& lane, NodeRecord& record, RequestBlock& block,
                                    int worker) {
  if (!workers_[Index(worker)].alive) [[unlikely]]
    worker = AliveWorkerFor(worker);
  record.queue_worker = static_cast<int8_t>(worker);
  lane.queue(worker, record.type).Push(record, block);
}

// Once for every link, and every node: inlined into Submitted.

inline void RequestProcessor::MergePin(NodeRecord& reader, RequestBlock& block, int worker,
                                       uint32_t sequence) {
  if (reader.position >= 0) [[unlikely]] {
    WidenConflict(conflicts_[Index(reader.position)], worker, sequence);
    return;
  }
  const int old = reader.pin_worker;
  if (old < 0 || old == worker) [[likely]] {
    if (old == worker && !Newer(sequence, reader.pin_sequence)) return;
  } else if (!Passed(old, reader.pin_sequence)) {
    if (Passed(worker, sequence)) return;
    AddConflict(reader, block, worker, sequence);
    return;
  }
  reader.pin_worker = static_cast<int8_t>(worker);
  reader.pin_sequence = sequence;
}

// A predecessor of `reader` has its last node in that task.
inline void RequestProcessor::Release(Lane& lane, NodeRecord& reader, RequestBlock& block,
                                      int worker, uint32_t sequence) {
  MergePin(reader, block, worker, sequence);
  if (--reader.pending > 0) return;
  if (reader.position < 0) [[likely]] {
    Queue(lane, reader, block, reader.pin_worker);
    return;
  }
  reader.state = NodeState::kConflict;
  Settle(Index(reader.position));
}

// Another worker's or an older number never hides a newer one.
inline void RequestProcessor::Touch(RequestBlock& block, int worker, uint32_t sequence) {
  const uint8_t bit = static_cast<uint8_t>(1u << worker);
  if ((block.touched & bit) == 0 || Newer(sequence, block.last_sequence[worker])) {
    block.last_sequence[worker] = sequence;
  }
  block.touched |= bit;
}

inline void RequestProcessor::Finish(Lane& lane, NodeRecord& record, RequestBlock& block,
                                     int worker, uint32_t sequence) {
  record.state = NodeState::kFinished;
  record.pin_worker = static_cast<int8_t>(worker);
  record.pin_sequence = sequence;
  Touch(block, worker, sequence);
  if (record.consumer >= 0) {
    Release(lane, block.records[record.consumer], block, worker, sequence);
    if (record.more_consumers != 0) {
      for (int32_t reader : block.list(record.more_consumers)) {
        Release(lane, block.records[reader], block, worker, sequence);
      }
    }
  }
  if (--block.remaining == 0) Drain(block);
}

void RequestProcessor::Submitted(Lane& lane, absl::Span<const ReadyEntry> finished, int worker,
                                 uint32_t sequence) {
  constexpr size_t kAhead = 8;
  for (size_t i = 0; i < std::min(kAhead, finished.size()); ++i) PrefetchReaders(finished[i]);
  for (size_t i = 0; i < finished.size(); ++i) {
    if (i + kAhead < finished.size()) PrefetchReaders(finished[i + kAhead]);
    Finish(lane, *finished[i].record, *finished[i].block, worker, sequence);
  }
}

// Of the pin that `reader` has, and this one.
void RequestProcessor::AddConflict(NodeRecord& reader, RequestBlock& block, int worker,
                                   uint32_t sequence) {
  const int old = reader.pin_worker;
  reader.position = static_cast<int32_t>(conflicts_.size());
  Conflict& c = conflicts_.emplace_back();
  c.entry = {&reader, &block};
  c.sequence[old] = reader.pin_sequence;
  c.sequence[worker] = sequence;
  c.workers = 1u << old | 1u << worker;
}

void RequestProcessor::WidenConflict(Conflict& c, int worker, uint32_t sequence) {
  const bool known = (c.workers >> worker & 1) != 0;
  if (!known || Newer(sequence, c.sequence[worker])) c.sequence[worker] = sequence;
  c.workers |= 1u << worker;
}

// Once at most one worker holds unfinished predecessors, the subgraph follows there.
bool RequestProcessor::Settle(size_t conflict) {
  Conflict& c = conflicts_[conflict];
  for (int w = 0; w < static_cast<int>(workers_.size()); ++w) {
    if ((c.workers >> w & 1) == 0 || std::popcount(c.workers) == 1) continue;
    if (Passed(w, c.sequence[w])) c.workers &= ~(1u << w);
  }
  if (std::popcount(c.workers) > 1 || c.entry.record->pending > 0) return false;
  const int worker = std::countr_zero(c.workers);
  const ReadyEntry e = c.entry;
  e.record->pin_worker = static_cast<int8_t>(worker);
  e.record->pin_sequence = c.sequence[worker];
  DropConflict(*e.record);
  Queue(*lanes_[Index(e.block->lane)], *e.record, *e.block, worker);
  return true;
}

void RequestProcessor::DropConflict(NodeRecord& record) {
  const size_t at = Index(record.position);
  Check(conflicts_[at].entry.record == &record, "a conflict is not where it says");
  conflicts_[at] = conflicts_.back();
  conflicts_[at].entry.record->position = static_cast<int32_t>(at);
  conflicts_.pop_back();
  record.position = -1;
}

void RequestProcessor::SettleConflicts() {
  for (size_t i = conflicts_.size(); i-- > 0;) Settle(i);
}

void RequestProcessor::TaskDone(const TaskSlot& slot, int worker) {
  TaskNotes& notes = *slot.notes;
  const BatchedTask& task = *slot.task;
  for (RequestBlock* b = notes.starters; b != nullptr; b = b->next_starter) {
    if (b->nodes_executed == 0) b->first_start_ns = task.start_ns;  // else of a later piece
  }
  if (!notes.stops.empty()) ReadWords(slot, worker);
  DrainLeavers(slot);
}

// Those who waited for this task wait for another one, or leave.
void RequestProcessor::DrainLeavers(const TaskSlot& slot) {
  TaskNotes& notes = *slot.notes;
  for (const RequestBlock* b = notes.leavers; b != nullptr; b = b->next_leaver) {
    const size_t tables = Index(b->num_tables);
    if (b->memory < 0) continue;
    slot.notes->lane->loaded(b->memory).arena->Prefetch({b->counts(), tables},
                                                        {b->bases(), tables});
  }
  for (RequestBlock* b = notes.leavers; b != nullptr;) {
    RequestBlock* const next = b->next_leaver;
    b->last_end_ns = std::max(b->last_end_ns, slot.task->end_ns);
    Drain(*b);
    b = next;
  }
  notes.starters = notes.leavers = nullptr;
}

void RequestProcessor::ReadWords(const TaskSlot& slot, int worker) {
  const BatchedTask& task = *slot.task;
  uint64_t overrun = 0;
  for (const StopNode& stop : slot.notes->stops) {
    stop.block->last_end_ns = std::max(stop.block->last_end_ns, task.end_ns);
    overrun += ReadWord(stop, slot, worker, static_cast<uint32_t>(task.sequence)) ? 1 : 0;
  }
  TypeCounters& counters = slot.notes->lane->type_counters(task.cell.value());
  AddTo<uint64_t>(counters.stop_steps, slot.notes->stops.size());
  AddTo<uint64_t>(counters.overrun, overrun);
}

// A node of a stopping chain is done: its words go into the answer, unless the chain ended before.
bool RequestProcessor::ReadWord(const StopNode& stop, const TaskSlot& slot, int worker,
                                uint32_t sequence) {
  RequestBlock& block = *stop.block;
  NodeRecord& record = *stop.record;
  Lane& lane = *slot.notes->lane;
  NodeInfo& info = block.info(record);
  if (block.outcome != Outcome::kOk || info.stopped_at >= 0) {
    AddTo<uint64_t>(lane.type_counters(record.type).discarded, 1);
    return info.stopped_at >= 0;
  }
  const TableId table = slot.notes->queue->shape().out;
  const LoadedModel& loaded = *slot.task->model;
  for (const ReturnRun& run : info.returns()) {
    if (stop.node < run.first || stop.node >= run.first + run.count) continue;
    const size_t width = Index(lane.model().table(table).columns[Index(run.column.value())].width);
    const int32_t* words = loaded.host_column(table, run.column).data() + Index(stop.row) * width;
    std::memcpy(run.dest + (stop.node - run.first) * run.stride, words, 4 * width);
  }
  if (info.counted != 0) {
    block.words.store(stop.node + 1, std::memory_order_release);
    if (block.streams) Tell(block, 0);
  }
  const int32_t word = loaded.host_column(table, ColumnId(info.stop_column))[Index(stop.row)];
  if (word != info.stop_value && stop.node < record.length - 1) return false;
  info.stopped_at = stop.node;
  if (record.state == NodeState::kRunning) {
    // Tasks queued meanwhile run on into rows that are still the request's.
    ReadyQueue& queue = lane.queue(worker, record.type);
    queue.Remove(record);
    Touch(block, worker, queue.last_sequence());
  }
  Finish(lane, record, block, worker, sequence);
  return false;
}

// Puts a request that is told of more than once into its outbox, unless it lies there untaken.
void RequestProcessor::Tell(RequestBlock& block, uint8_t what) {
  const uint8_t before =
      block.mail.fetch_or(RequestBlock::kInOutbox | what, std::memory_order_acq_rel);
  if ((before & RequestBlock::kInOutbox) == 0) outboxes_[Index(block.outbox)]->Put(&block);
}

// Nothing more will be submitted: waits for one unfinished task after the other, then leaves.
void RequestProcessor::Drain(RequestBlock& block) {
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
  Leave(block);
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
    End(block);
  }
}

void RequestProcessor::Pause(RequestBlock& block) {
  block.state = RequestState::kPaused;
  lanes_[Index(block.lane)]->RequestPaused();
  Tell(block, RequestBlock::kPieceDone);
}

void RequestProcessor::Continue(RequestBlock& block, bool failed) {
  Check(block.state == RequestState::kPaused, "a request goes on that was not paused");
  Lane& lane = *lanes_[Index(block.lane)];
  lane.RequestResumed();
  if (failed && block.outcome == Outcome::kOk) block.outcome = Outcome::kBadGraph;
  if (block.outcome != Outcome::kOk || block.next_piece == nullptr) {
    End(block);
    return;
  }
  block.AdoptNextPiece();
  block.state = RequestState::kRunning;
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

void RequestProcessor::End(RequestBlock& block) {
  Lane& lane = *lanes_[Index(block.lane)];
  ReleaseRows(lane, block);
  lane.RequestLeft();
  Refuse(block, block.outcome);
}

void RequestProcessor::Refuse(RequestBlock& block, Outcome outcome) {
  block.outcome = outcome;
  block.state = RequestState::kDone;
  present_.Remove(block.slot);
  ++finished_requests_;
  if (block.mails) {
    Tell(block, RequestBlock::kAnswered);
  } else {
    outboxes_[Index(block.outbox)]->Put(&block);
  }
}

void RequestProcessor::Cancel(RequestBlock& block, Outcome outcome) {
  Lane& lane = *lanes_[Index(block.lane)];
  if (block.state == RequestState::kWaiting) {
    lane.line().Remove(block);
    Refuse(block, outcome);
    return;
  }
  if (block.state == RequestState::kPaused && block.outcome == Outcome::kOk) {
    block.outcome = outcome;
    ReleaseRows(lane, block);
  }
  if (block.state == RequestState::kDraining && block.grows && block.outcome == Outcome::kOk) {
    block.outcome = outcome;  // it would have gone on
  }
  if (block.state != RequestState::kRunning) return;
  block.outcome = outcome;
  for (int32_t i = 0; i < block.num_records; ++i) {
    NodeRecord& r = block.records[i];
    if (r.state == NodeState::kQueued || r.state == NodeState::kRunning) {
      ReadyQueue& queue = lane.queue(r.queue_worker, r.type);
      if (r.state == NodeState::kRunning) Touch(block, r.queue_worker, queue.last_sequence());
      queue.Remove(r);
      r.state = NodeState::kFinished;
    } else if ((r.state == NodeState::kBlocked || r.state == NodeState::kConflict) &&
               r.position >= 0) {
      DropConflict(r);
    }
  }
  Drain(block);
}

bool RequestProcessor::MaySteal(const ReadyEntry& entry, int thief) const {
  const NodeRecord& r = *entry.record;
  const RequestBlock& block = *entry.block;
  if (r.next > 0) return false;
  if (!block.copied) return block.num_roots_capped == 1;  // the whole request moves
  if (block.home != thief && !Passed(block.home, block.copy_sequence)) return false;
  return r.pin_worker < 0 || r.pin_worker == thief || Passed(r.pin_worker, r.pin_sequence);
}

int RequestProcessor::Steal(Lane& lane, int type, int victim, int thief, int count) {
  ReadyQueue& from = lane.queue(victim, type);
  int taken = 0;
  while (taken < count) {
    const ReadyEntry e = from.fifo().Head();
    if (e.record == nullptr || !MaySteal(e, thief)) break;
    from.Remove(*e.record);
    if (!e.block->copied) e.block->home = static_cast<int8_t>(thief);
    Queue(lane, *e.record, *e.block, thief);
    ++taken;
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
    if (block->state == RequestState::kDone) continue;
    Lane& lane = *lanes_[Index(block->lane)];
    bool lost = refuge == worker && block->memory == workers_[Index(worker)].memory;
    if (block->state == RequestState::kPaused) {  // its records are its taker's
      if (lost) Cancel(*block, Outcome::kDeviceFailed);
      continue;
    }
    lost =
        lost || ((block->touched >> worker & 1) != 0 && Newer(block->last_sequence[worker], done));
    for (int32_t i = 0; i < block->num_records && !lost; ++i) {
      const NodeRecord& r = block->records[i];
      const bool here = (r.state == NodeState::kQueued || r.state == NodeState::kRunning) &&
                        r.queue_worker == worker;
      lost = here && r.state == NodeState::kRunning;
      lost = lost || (r.state == NodeState::kAwaitingStop && r.pin_worker == worker &&
                      Newer(r.pin_sequence, done));
    }
    if (lost) {
      if (block->state == RequestState::kDraining) {
        block->outcome = Outcome::kDeviceFailed;
      } else {
        Cancel(*block, Outcome::kDeviceFailed);
      }
      continue;
    }
    for (int32_t i = 0; i < block->num_records; ++i) {
      NodeRecord& r = block->records[i];
      if (r.state != NodeState::kQueued || r.queue_worker != worker) continue;
      lane.queue(worker, r.type).Remove(r);
      if (!block->copied) block->home = static_cast<int8_t>(refuge);
      Queue(lane, r, *block, refuge);
    }
  }
}

}  // namespace cellbatch
