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

uint32_t LeastDistance(const uint32_t* __restrict event, uint32_t step, int32_t n) {
  uint32_t least = ~0u;
  for (int32_t i = 0; i < n; ++i) least = std::min(least, event[i] - step);
  return least;
}

}  // namespace

RunningChains::RunningChains(const TypeShape& shape, int batch_limit) : shape_(shape) {
  if (!shape.is_chain()) return;
  const size_t n = static_cast<size_t>(batch_limit);
  for (Array<Row>* a : {&out_, &prev_, &begin_, &end_}) a->reset(new Row[n]());
  for (Array<uint32_t>* a : {&first_step_, &event_, &entered_step_}) a->reset(new uint32_t[n]());
  for (int k = 0; k < shape_.num_inputs; ++k) {
    in_[static_cast<size_t>(k)].reset(new Row[n]());
    stride_[static_cast<size_t>(k)].reset(new Row[n]());
  }
  records_.reset(new NodeRecord*[n]());
  blocks_.reset(new RequestBlock*[n]());
  events_.reset(new int32_t[n]());
}

int32_t RunningChains::Remove(const NodeRecord& record) {
  Check(record.position >= 0 && record.position < size_ && records_[record.position] == &record,
        "a running chain is not where it says");
  return Leave(record.position);
}

void RunningChains::Enter(NodeRecord& record, RequestBlock& block) {
  const int32_t slot = size_++;
  records_[slot] = &record;
  blocks_[slot] = &block;
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
  first_step_[slot] = step_ - static_cast<uint32_t>(record.next);
  entered_step_[slot] = step_;
  if (slot == 0) oldest_entry_ = step_;
  if (record.has_stop) ++num_stops_;
  SetEvent(slot, record.next);
  if (size_ == 1 || event_[slot] - step_ < next_event_ - step_) next_event_ = event_[slot];
}

void RunningChains::SetEvent(int32_t slot, int32_t node) {
  const int32_t at = NextEvent(*records_[slot], *blocks_[slot], node);
  event_[slot] = first_step_[slot] + static_cast<uint32_t>(at);
}

int32_t RunningChains::Leave(int32_t slot) {
  const int32_t submitted = NextNode(slot);
  if (records_[slot]->has_stop) --num_stops_;
  const int32_t last = --size_;
  if (slot == last) return submitted;
  for (Array<Row>* a : {&out_, &prev_, &begin_, &end_}) (*a)[slot] = (*a)[last];
  first_step_[slot] = first_step_[last];
  event_[slot] = event_[last];
  entered_step_[slot] = entered_step_[last];
  for (int k = 0; k < shape_.num_inputs; ++k) {
    const size_t at = static_cast<size_t>(k);
    in_[at][slot] = in_[at][last];
    stride_[at][slot] = stride_[at][last];
  }
  records_[slot] = records_[last];
  blocks_[slot] = blocks_[last];
  records_[slot]->position = slot;
  return submitted;
}

void RunningChains::Step(const StepRows& rows) {
  const size_t carry = static_cast<size_t>(shape_.carry);
  for (size_t k = 0; k < static_cast<size_t>(shape_.num_inputs); ++k) {
    if (k != carry) EmitInput(rows.inputs[k], in_[k].get(), stride_[k].get(), size_);
  }
  EmitCarryAndOutput(rows.inputs[carry], rows.outputs, prev_.get(), out_.get(), begin_.get(),
                     end_.get(), size_);
  num_events_ = 0;
  const bool due = size_ > 0 && next_event_ == step_;
  if (due) {
    const uint32_t* __restrict event = event_.get();
    for (int32_t i = 0; i < size_; ++i) {
      events_[num_events_] = i;
      num_events_ += event[i] == step_ ? 1 : 0;
    }
  }
  ++step_;
  if (due && num_events_ == 0) EventsSeen();  // whose event it was has left early
}

void RunningChains::EventsSeen() {
  if (size_ > 0) next_event_ = step_ + LeastDistance(event_.get(), step_, size_);
}

}  // namespace cellbatch
