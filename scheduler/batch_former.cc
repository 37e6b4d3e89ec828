#include "scheduler/batch_former.h"

#include <algorithm>

#include "cells/check.h"

namespace cellbatch {

BatchFormer::BatchFormer(int batch_limit, int64_t chain_turn)
    : chain_turn_(chain_turn), facts_(batch_limit) {
  Check(chain_turn > 0, "a chain's turn has no task");
  singles_.reserve(static_cast<size_t>(batch_limit));
  due_.reserve(static_cast<size_t>(batch_limit));
}

int32_t BatchFormer::Form(ReadyQueue& queue, const LoadedModel& model, int worker,
                          int32_t max_batch, TaskRing& ring) {
  Begin(queue, worker, max_batch, ring);
  UrgentFirst* const urgent_first = queue.urgent_first();
  if (urgent_first != nullptr) [[unlikely]] {
    const RunningChains& chains = queue.chains();
    urgent_first->Stage(int64_t{max_batch} - chains.size() + chains.num_due());
  }
  if (queue.shape().is_chain()) {
    FormChains(queue, max_batch);
  } else {
    FormNodes(queue, max_batch);
  }
  if (urgent_first != nullptr) [[unlikely]]
    urgent_first->Unstage();
  return Finish(model);
}

void BatchFormer::Begin(const ReadyQueue& queue, int worker, int32_t max_batch, TaskRing& ring) {
  shape_ = &queue.shape();
  slot_ = &ring.Next();
  worker_ = worker;
  sequence_ = static_cast<uint32_t>(ring.next_sequence());
  copies_in_ = copies_out_ = 0;
  facts_.Clear();
  slot_->notes->stops.clear();
  slot_->notes->padding = 0;
  LayOut(max_batch);
  BatchedTask& task = *slot_->task;
  task.num_nodes = 0;
}

int32_t BatchFormer::Finish(const LoadedModel& model) {
  BatchedTask& task = *slot_->task;
  task.model = &model;
  task.cell = shape_->type;
  for (size_t k = 0; k < static_cast<size_t>(shape_->num_inputs); ++k) {
    task.inputs[k] = {inputs_[k], offsets_[k]};
  }
  task.output_rows = outputs_;
  task.copies_in = slot_->copies_in;
  task.num_copies_in = copies_in_;
  task.measured = false;
  task.copies_out = slot_->copies_out;
  task.num_copies_out = copies_out_;
  return task.num_nodes;
}

// Fixed lists first; summed inputs share what is left of the slot's memory.
void BatchFormer::LayOut(int32_t max_batch) {
  int32_t* at = slot_->ints;
  const int32_t stride = (max_batch + 15) / 16 * 16;  // lists start on cache lines
  outputs_ = at;
  at += stride;
  for (size_t k = 0; k < static_cast<size_t>(shape_->num_inputs); ++k) {
    offsets_[k] = nullptr;
    if (shape_->sums[k]) {
      offsets_[k] = at;
      offsets_[k][0] = 0;
      at += stride + 16;
    } else {
      inputs_[k] = at;
      at += stride;
    }
  }
  if (shape_->num_sums == 0) return;
  const int32_t left = slot_->num_ints - static_cast<int32_t>(at - slot_->ints);
  sum_room_ = left / shape_->num_sums;
  for (size_t k = 0; k < static_cast<size_t>(shape_->num_inputs); ++k) {
    if (!shape_->sums[k]) continue;
    inputs_[k] = at;
    at += sum_room_;
  }
}

// The request's first node goes into this task, and its rows with it. False: no room for them. Roots of a
// request stand side by side in a queue, so that only the last one that started may be seen again.
bool BatchFormer::CopyIn(RequestBlock& block) {
  if (!facts_.started.empty() && facts_.started.back() == &block) return true;
  if (copies_in_ + block.num_copies > slot_->max_copies_in) return false;
  for (int32_t i = 0; i < block.num_copies; ++i) {
    cellbatch::CopyIn& copy = slot_->copies_in[copies_in_++];
    copy = block.copies[i];
    copy.first += block.base(copy.table);
  }
  facts_.started.push_back(&block);
  return true;
}

void BatchFormer::CopyOut(const ReadyEntry& entry, int32_t node, Row row) {
  for (const ReturnRun& run : entry.block->info(*entry.record).returns()) {
    if (node < run.first || node >= run.first + run.count) continue;
    Check(copies_out_ < slot_->max_copies_out, "more copies out than a task can carry");
    slot_->copies_out[copies_out_++] = {run.dest + (node - run.first) * run.stride, run.column,
                                        row};
  }
}

void BatchFormer::FormChains(ReadyQueue& queue, int32_t max_batch) {
  ReadyFifo& fifo = queue.fifo();
  RunningChains& chains = queue.chains();
  singles_.clear();
  if (chains.num_due() > 0 && chains.size() + fifo.nodes() > max_batch) [[unlikely]]
    MakeRoom(queue, max_batch);
  fifo.PrefetchFirst();
  while (chains.size() + static_cast<int32_t>(singles_.size()) < max_batch) {
    const ReadyEntry head = fifo.Head();
    if (head.record == nullptr) break;
    fifo.PrefetchNext();
    if (!head.block->copied && !CopyIn(*head.block)) break;
    fifo.PopHead();
    if (head.record->length == 1 && !head.record->has_stop && chains.padded_to() <= 1) {
      singles_.push_back(head);
    } else {
      chains.Enter(*head.record, *head.block, chain_turn_);
      facts_.entered.push_back(head);
    }
  }
  const int32_t running = chains.size();
  slot_->task->num_nodes = running + static_cast<int32_t>(singles_.size());
  RunningChains::StepRows rows;
  std::copy(std::begin(inputs_), std::end(inputs_), rows.inputs.begin());
  rows.outputs = outputs_;
  if (running > 0) {
    slot_->notes->padding = chains.num_padding();
    chains.Step(rows);
    if (chains.num_stops() > 0) ListStops(chains);
    if (!chains.events().empty()) HandleEvents(chains);
  }
  int32_t at = running;
  for (const ReadyEntry& entry : singles_) {
    if (shape_->wide) {
      EmitWide(entry, at, 1);
    } else {
      EmitNarrow(entry, at, 1);
    }
    Outputs(entry, at++, 1);
    facts_.ended.push_back(entry);
  }
}

// More wait than there are places: chains that have had theirs for a turn make room for as many.
void BatchFormer::MakeRoom(ReadyQueue& queue, int32_t max_batch) {
  RunningChains& chains = queue.chains();
  const int32_t waiting = queue.fifo().nodes();
  const int32_t most = std::min(waiting, chains.size() + waiting - max_batch);
  facts_.gave_way_after = queue.last_sequence();
  if (queue.urgent_first() != nullptr) {
    MakeRoomByPriority(queue, std::max(0, max_batch - chains.size()), most);
    return;
  }
  for (int32_t n = 0; n < most && chains.num_due() > 0; ++n) {
    const int32_t slot = chains.AnyDue();
    const ReadyEntry e = chains.chain(slot);
    facts_.gave_way.push_back({e, chains.Leave(slot)});
  }
}

// Words of stopping chains are read when the task is done; until then nobody may follow.
void BatchFormer::ListStops(const RunningChains& chains) {
  for (int32_t i = 0; i < chains.size(); ++i) {
    const ReadyEntry e = chains.chain(i);
    if (!e.record->has_stop) continue;
    slot_->notes->stops.push_back({e.record, e.block, chains.NodeInStep(i), outputs_[i]});
  }
}

void BatchFormer::HandleEvents(RunningChains& chains) {
  const auto events = chains.events();
  for (int32_t slot : events) chains.PrefetchChain(slot);
  for (int32_t slot : events) PrefetchNamed(chains.chain(slot));
  for (int32_t slot : events) {
    const ReadyEntry e = chains.chain(slot);
    const int32_t node = chains.NodeInStep(slot);
    if (e.record->info != 0 && !e.record->has_stop) CopyOut(e, node, outputs_[slot]);
    if (node < e.record->length - 1) {
      chains.LookAgain(slot, node + 1);
    } else if (node + 1 < chains.padded_to() && !e.record->has_stop) [[unlikely]] {
      chains.Pad(slot);
    } else {
      (e.record->has_stop ? facts_.awaiting : facts_.ended).push_back(e);
    }
  }
  for (const ReadyEntry& e : facts_.ended) chains.Remove(*e.record);
  for (const ReadyEntry& e : facts_.awaiting) chains.Remove(*e.record);
}

void BatchFormer::FormNodes(ReadyQueue& queue, int32_t max_batch) {
  ReadyFifo& fifo = queue.fifo();
  int32_t n = 0;
  fifo.PrefetchFirst();
  while (n < max_batch) {
    const ReadyEntry head = fifo.Head();
    if (head.record == nullptr) break;
    fifo.PrefetchNext();
    const NodeRecord& r = *head.record;
    if (!head.block->copied && !CopyIn(*head.block)) break;
    const int32_t count = std::min(r.length - r.next, max_batch - n);
    if (shape_->wide) {
      if (!EmitWide(head, n, count)) break;
    } else {
      EmitNarrow(head, n, count);
    }
    Outputs(head, n, count);
    n += count;
    if (r.next + count < r.length) {
      fifo.TakeFromHead(count);
      facts_.partly = {head, r.next + count};
      break;
    }
    fifo.PopHead();
    facts_.ended.push_back(head);
  }
  slot_->task->num_nodes = n;
}

// Cells with at most two inputs, each of one row.
void BatchFormer::EmitNarrow(const ReadyEntry& entry, int32_t at, int32_t count) {
  const NodeRecord& r = *entry.record;
  for (size_t k = 0; k < static_cast<size_t>(shape_->num_inputs); ++k) {
    const Row first =
        ResolveRow(*entry.block, r.input_row[k], shape_->in[k]) + r.next * r.stride[k];
    for (int32_t i = 0; i < count; ++i) inputs_[k][at + i] = first + i * r.stride[k];
  }
}

// Any inputs. False, and nothing is taken, if the links of a sum find no room: the task is full.
bool BatchFormer::EmitWide(const ReadyEntry& entry, int32_t at, int32_t count) {
  const NodeRecord& r = *entry.record;
  const int32_t* in = entry.block->pool() + r.wide;
  for (size_t k = 0; k < static_cast<size_t>(shape_->num_inputs); ++k) {
    const TableId table = shape_->in[k];
    if (!shape_->sums[k]) {
      const Row first = ResolveRow(*entry.block, in[0], table) + r.next * in[1];
      for (int32_t i = 0; i < count; ++i) inputs_[k][at + i] = first + i * in[1];
      in += 2;
      continue;
    }
    const int32_t links = in[0];
    int32_t used = offsets_[k][at];
    if (used + links > sum_room_) return false;
    for (int32_t i = 0; i < links; ++i) {
      inputs_[k][used + i] = ResolveRow(*entry.block, in[1 + i], table);
    }
    offsets_[k][at + 1] = used + links;
    in += 1 + links;
  }
  return true;
}

void BatchFormer::Outputs(const ReadyEntry& entry, int32_t at, int32_t count) {
  const NodeRecord& r = *entry.record;
  const Row first = r.first_row + entry.block->base(shape_->out) + r.next;
  for (int32_t i = 0; i < count; ++i) outputs_[at + i] = first + i;
  if (r.info == 0) [[likely]]
    return;
  for (int32_t i = 0; i < count; ++i) CopyOut(entry, r.next + i, first + i);
}

}  // namespace cellbatch
