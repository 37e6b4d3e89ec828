#include "scheduler/ready/running_chains.h"

#include <algorithm>

#include "cells/check.h"

namespace cellbatch {
namespace {

// The first node >= `from` that somebody must look at: the last one, or one that is returned.
int32_t NextEvent(const NodeRecord& r, const RequestBlock& block, int32_t from) {
  int32_t next = r.length - 1;
  if (r.info == 0 || r.has_stop) return next;
  for (const ReturnRun& run : block.info(r).returns()) {
    if (from < run.first + run.count) next = std::min(next, std::max(from, run.first));
  }
  return next;
}

// The dense loops: no aliasing, so that they become vector instructions (-O3).
void EmitInput(Row* __restrict to, Row* __restrict row, const Row* __restrict stride, int32_t n) {
  for (int32_t i = 0; i < n; ++i) {
    to[i] = row[i];
    row[i] += stride[i];
  }
}

void EmitCarryAndOutput(Row* __restrict carry, Row* __restrict output, Row* __restrict prev,
                        Row* __restrict out, const Row* __restrict begin, const Row* __restrict end,
                        int32_t n) {
  for (int32_t i = 0; i < n; ++i) {
    const Row now = out[i];
    const Row next = now + 1;
    const Row wrapped = begin[i];  // loaded always: a branch here is mispredicted every other time
    carry[i] = prev[i];
    output[i] = now;
    prev[i] = now;
    out[i] = next == end[i] ? wrapped : next;
  }
}

}  // namespace

RunningChains::RunningChains(const TypeShape& shape, int batch_limit)
    : shape_(shape), wheel_(shape.is_chain() ? batch_limit : 0) {
  if (!shape.is_chain()) return;
  const size_t n = static_cast<size_t>(batch_limit);
  for (Array<Row>* a : {&out_, &prev_, &begin_, &end_}) a->reset(new Row[n]());
  for (int k = 0; k < shape_.num_inputs; ++k) {
    in_[static_cast<size_t>(k)].reset(new Row[n]());
    stride_[static_cast<size_t>(k)].reset(new Row[n]());
  }
  places_.reset(new Place[n]());
  for (Array<int32_t>* a : {&events_, &due_}) a->reset(new int32_t[n]());
}

int32_t RunningChains::Remove(const NodeRecord& record) {
  Check(record.position >= 0 && record.position < size_ &&
            places_[record.position].entry.record == &record,
        "a running chain is not where it says");
  return Leave(record.position);
}

void RunningChains::Enter(NodeRecord& record, RequestBlock& block, int64_t turn) {
  const int32_t slot = size_++;
  places_[slot] = {{&record, &block},
                   step_ - static_cast<uint32_t>(record.next),
                   step_ + static_cast<uint32_t>(turn - 1),
                   -1};
  record.position = slot;
  const Row first = record.first_row + block.base(shape_.out);
  begin_[slot] = first;
  end_[slot] = first + record.ring;
  out_[slot] = first + record.next % record.ring;
  const int32_t* const wide = shape_.wide ? block.pool() + record.wide : nullptr;
  for (int k = 0; k < shape_.num_inputs; ++k) {
    const size_t at = static_cast<size_t>(k);
    const int32_t row = wide != nullptr ? wide[2 * k] : record.input_row[at];
    const int32_t stride = wide != nullptr ? wide[2 * k + 1] : record.stride[at];
    const Row start = ResolveRow(block, row, shape_.in[at]);
    if (k == shape_.carry) {
      prev_[slot] = record.next == 0 ? start : first + (record.next - 1) % record.ring;
    } else {
      in_[at][slot] = start + record.next * stride;
      stride_[at][slot] = stride;
    }
  }
  if (record.has_stop) ++num_stops_;
  SetEvent(slot, record.next);
}

// REQUIRES: it has none.
void RunningChains::SetEvent(int32_t slot, int32_t node) {
  const Place& place = places_[slot];
  const int32_t at = NextEvent(*place.entry.record, *place.entry.block, node);
  uint32_t event = place.first_step + static_cast<uint32_t>(at);
  if (place.due_at < 0 && place.turn_end - step_ < event - step_) event = place.turn_end;
  wheel_.Add(slot, event);
}

void RunningChains::TurnEnded(int32_t slot) {
  places_[slot].due_at = num_due_;
  due_[num_due_++] = slot;
}

void RunningChains::Forget(int32_t slot) {
  const int32_t at = places_[slot].due_at, moved = due_[--num_due_];
  due_[at] = moved;
  places_[moved].due_at = at;
}

void RunningChains::Pad(int32_t slot) {
  Place& place = places_[slot];
  if (place.due_at >= 0) Forget(slot);
  place.due_at = -1;
  place.turn_end = step_ - 1;  // it is over: padding gives no way
  if (!IsPadding(slot)) ++num_padding_;
  out_[slot] = begin_[slot] = trash_;
  end_[slot] = trash_ + 1;
  prev_[slot] = kZeroRow;
  for (int k = 0; k < shape_.num_inputs; ++k) {
    in_[static_cast<size_t>(k)][slot] = kZeroRow;
    stride_[static_cast<size_t>(k)][slot] = 0;
  }
  wheel_.Remove(slot);
  wheel_.Add(slot, place.first_step + static_cast<uint32_t>(padded_to_ - 1));
}

// What padding left is nobody's, its own next node's neither.
void RunningChains::ReadZeros() {
  for (int32_t slot = 0; slot < size_; ++slot) {
    if (begin_[slot] == trash_) prev_[slot] = kZeroRow;
  }
}

int32_t RunningChains::Leave(int32_t slot) {
  const bool padding = IsPadding(slot);
  const int32_t submitted = padding ? places_[slot].entry.record->length : NextNode(slot);
  if (padding) [[unlikely]]
    --num_padding_;
  if (places_[slot].entry.record->has_stop) --num_stops_;
  if (places_[slot].due_at >= 0) Forget(slot);
  wheel_.Remove(slot);
  const int32_t last = --size_;
  if (slot == last) return submitted;
  for (Array<Row>* a : {&out_, &prev_, &begin_, &end_}) (*a)[slot] = (*a)[last];
  for (int k = 0; k < shape_.num_inputs; ++k) {
    const size_t at = static_cast<size_t>(k);
    in_[at][slot] = in_[at][last];
    stride_[at][slot] = stride_[at][last];
  }
  const Place& moved = places_[slot] = places_[last];
  moved.entry.record->position = slot;
  if (moved.due_at >= 0) due_[moved.due_at] = slot;
  wheel_.Move(last, slot);
  return submitted;
}

void RunningChains::Step(const StepRows& rows) {
  const size_t carry = static_cast<size_t>(shape_.carry);
  for (size_t k = 0; k < static_cast<size_t>(shape_.num_inputs); ++k) {
    if (k != carry) EmitInput(rows.inputs[k], in_[k].get(), stride_[k].get(), size_);
  }
  EmitCarryAndOutput(rows.inputs[carry], rows.outputs, prev_.get(), out_.get(), begin_.get(),
                     end_.get(), size_);
  if (num_padding_ > 0) [[unlikely]]
    ReadZeros();
  num_events_ = wheel_.At(step_, events_.get());
  for (const int32_t slot : events()) {
    if (places_[slot].turn_end == step_) TurnEnded(slot);
  }
  ++step_;
}

}  // namespace cellbatch
