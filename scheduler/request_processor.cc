#include "scheduler/request_processor.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cells/check.h"

namespace cellbatch {
namespace {

constexpr size_t kConflictsReserved = 1 << 13;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

RequestProcessor::RequestProcessor(absl::Span<WorkerLink> workers, absl::Span<Lane* const> lanes,
                                   AnswerSink& sink, int max_requests, ScheduleTape* tape)
    : workers_(workers), lanes_(lanes), sink_(sink), tape_(tape), present_(max_requests) {
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
  if (lane.counts_nodes()) [[unlikely]]
    lane.nodes()->Joined(block);
  for (int32_t root : block.list(block.roots)) Queue(lane, block.records[root], block, worker);
  return true;
}

// Of a lane that has priority levels, or counts its nodes.
void RequestProcessor::QueueWatched(Lane& lane, ReadyQueue& queue, NodeRecord& record,
                                    RequestBlock& block) {
  queue.Push(record, block);
  if (lane.counts_nodes()) lane.nodes()->Queued(record.queue_worker, record);
}

// Once for every link, and every node: inlined into Submitted.

inline void RequestProcessor::MergePin(NodeRecord& reader, RequestBlock& block, int worker,
                                       uint32_t sequence) {
  if (reader.position >= 0) [[unlikely]] {
    WidenConflict(ConflictOf(reader), worker, sequence);
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
[[gnu::always_inline]] inline void RequestProcessor::Release(Lane& lane, NodeRecord& reader,
                                                             RequestBlock& block, int worker,
                                                             uint32_t sequence) {
  MergePin(reader, block, worker, sequence);
  if (--reader.pending > 0) return;
  if (reader.position < 0) [[likely]] {
    Queue(lane, reader, block, reader.pin_worker);
    return;
  }
  reader.state = NodeState::kConflict;
  Settle(Index(reader.position));
}

// Its last node is in that task.
[[gnu::always_inline]] inline void RequestProcessor::End(Lane& lane, NodeRecord& record,
                                                         RequestBlock& block, int worker,
                                                         uint32_t sequence) {
  record.state = NodeState::kEnded;
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

inline void RequestProcessor::Start(RequestBlock& block, int worker, uint32_t sequence,
                                    TaskNotes& notes) {
  block.copied = true;
  block.copy_sequence = sequence;
  Touch(block, worker, sequence);
  block.next_starter = notes.starters;
  notes.starters = &block;
}

// So many of its nodes are submitted by now, the last of them in that task.
inline void RequestProcessor::Reach(const ReadyEntry& entry, int32_t nodes, int worker,
                                    uint32_t sequence) {
  entry.record->next = nodes;
  entry.record->pin_worker = static_cast<int8_t>(worker);
  entry.record->pin_sequence = sequence;
  Touch(*entry.block, worker, sequence);
}

void RequestProcessor::Submitted(Lane& lane, const TaskFacts& facts, int worker,
                                 uint32_t sequence) {
  const TaskSlot& slot = workers_[Index(worker)].ring->SlotInFlight(sequence);
  TaskNotes& notes = *slot.notes;
  notes.starters = notes.leavers = nullptr;
  if (lane.counts_nodes()) [[unlikely]]
    lane.nodes()->Submitted(worker, notes.queue->shape(), facts, slot.task->num_nodes);
  for (RequestBlock* block : facts.started) Start(*block, worker, sequence, notes);
  if (!facts.gave_way.empty()) [[unlikely]]
    GiveWay(lane, facts, worker);
  if (!facts.stepped.empty()) [[unlikely]]
    StepBack(lane, facts, worker, sequence);
  for (const ReadyEntry& e : facts.entered) e.record->state = NodeState::kRunning;
  if (facts.partly.entry.record != nullptr) {
    Reach(facts.partly.entry, facts.partly.nodes, worker, sequence);
  }
  for (const ReadyEntry& e : facts.awaiting) {
    Reach(e, e.record->length, worker, sequence);
    e.record->state = NodeState::kAwaitingStop;
  }
  if (lane.counts_nodes()) [[unlikely]] {
    EndAll(lane, facts.ended, worker, sequence, lane.nodes()->ends(worker, notes.queue->shape()));
  } else {
    EndAll(lane, facts.ended, worker, sequence, [](const NodeRecord&) {});
  }
  LetLeave();
}

// `note` is told of each before it changes. Two copies of all of it, so that lanes that count nothing do not even ask.
template <typename Note>
inline void RequestProcessor::EndAll(Lane& lane, absl::Span<const ReadyEntry> ended, int worker,
                                     uint32_t sequence, Note note) {
  constexpr size_t kAhead = 8;
  for (size_t i = 0; i < std::min(kAhead, ended.size()); ++i) PrefetchReaders(ended[i]);
  for (size_t i = 0; i < ended.size(); ++i) {
    if (i + kAhead < ended.size()) PrefetchReaders(ended[i + kAhead]);
    note(*ended[i].record);
    ended[i].record->next = ended[i].record->length;
    End(lane, *ended[i].record, *ended[i].block, worker, sequence);
  }
}

// Back to the end of the queue, to go on from the node they came to.
void RequestProcessor::GiveWay(Lane& lane, const TaskFacts& facts, int worker) {
  for (const TaskFacts::Reached& r : facts.gave_way) {
    Reach(r.entry, r.nodes, worker, facts.gave_way_after);
    Queue(lane, *r.entry.record, *r.entry.block, worker);
  }
}

// To the end of the queue, each time they have moved by a node.
void RequestProcessor::StepBack(Lane& lane, const TaskFacts& facts, int worker, uint32_t sequence) {
  for (const TaskFacts::Reached& r : facts.stepped) {
    Reach(r.entry, r.nodes, worker, sequence);
    Queue(lane, *r.entry.record, *r.entry.block, worker);
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

Conflict& RequestProcessor::ConflictOf(const NodeRecord& record) {
  const size_t at = Index(record.position);
  Check(at < conflicts_.size() && conflicts_[at].entry.record == &record,
        "a conflict is not where it says");
  return conflicts_[at];
}

void RequestProcessor::WidenConflict(Conflict& c, int worker, uint32_t sequence) {
  const bool known = (c.workers >> worker & 1) != 0;
  if (!known || Newer(sequence, c.sequence[worker])) c.sequence[worker] = sequence;
  c.workers |= 1u << worker;
}

// Once at most one worker holds unfinished predecessors, the subgraph follows there.
bool RequestProcessor::Settle(size_t conflict) {
  Conflict& c = conflicts_[conflict];
  Check(c.entry.record->position == static_cast<int32_t>(conflict),
        "a conflict is not where it says");
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
  ConflictOf(record) = conflicts_.back();
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
  DrainLeavers(slot);  // answers, last
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
  LetLeave();
}

void RequestProcessor::ReadWords(const TaskSlot& slot, int worker) {
  const BatchedTask& task = *slot.task;
  uint64_t overrun = 0;
  if (tape_ != nullptr) tape_->BeginStops(slot.notes->stops.size());
  for (const StopNode& stop : slot.notes->stops) {
    stop.block->last_end_ns = std::max(stop.block->last_end_ns, task.end_ns);
    overrun += ReadWord(stop, slot, worker, static_cast<uint32_t>(task.sequence)) ? 1 : 0;
    if (tape_ != nullptr) tape_->AddStop(stop.block->info(*stop.record).stopped_at == stop.node);
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
    if (block.streams) sink_.Tell(block, 0);
  }
  const int32_t word = loaded.host_column(table, ColumnId(info.stop_column))[Index(stop.row)];
  if (word != info.stop_value && stop.node < record.length - 1) return false;
  info.stopped_at = stop.node;
  if (record.state == NodeState::kRunning || record.state == NodeState::kQueued) {
    // Tasks queued meanwhile run on into rows that are still the request's.
    ReadyQueue& queue = lane.queue(record.queue_worker, record.type);
    if (record.state == NodeState::kRunning) {
      Touch(block, record.queue_worker, queue.last_sequence());
    }
    record.next = queue.Remove(record);
    if (lane.counts_nodes()) lane.nodes()->Dropped(record);
  }
  End(lane, record, block, worker, sequence);
  return false;
}

}  // namespace cellbatch
