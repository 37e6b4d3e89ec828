#include "scheduler/ready/ready_fifo.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "cells/check.h"

namespace cellbatch {

ReadyFifo::ReadyFifo(const TypeShape& shape, int32_t capacity)
    : is_chain_(shape.is_chain()),
      far_bases_(shape.HasFarBases()),
      capacity_(std::max(std::bit_ceil(static_cast<uint32_t>(capacity)), kFirstEntries)),
      entries_(NewEntries(capacity_)) {}

ReadyFifo::Entries ReadyFifo::NewEntries(uint32_t capacity) {
  void* const memory = std::calloc(capacity, sizeof(ReadyEntry));
  Check(memory != nullptr, "no memory for a FIFO of ready subgraphs");
  return Entries(static_cast<ReadyEntry*>(memory));
}

// Closes the holes if they are the half; else it is twice as long from here on, and only if there is no
// memory for that does it allocate.
void ReadyFifo::Grow() {
  const uint32_t span = tail_ - head_;
  uint32_t live = 0;
  for (uint32_t i = head_; i != tail_; ++i) live += entries_[i & mask_].record != nullptr ? 1 : 0;
  if (live <= span / 2) {
    uint32_t to = head_;
    for (uint32_t i = head_; i != tail_; ++i) {
      const ReadyEntry e = entries_[i & mask_];
      if (e.record == nullptr) continue;
      e.record->position = static_cast<int32_t>(to & mask_);
      entries_[to++ & mask_] = e;
    }
    tail_ = to;
    return;
  }
  const uint32_t mask = 2 * mask_ + 1;
  if (mask >= capacity_) {
    Entries longer = NewEntries(2 * capacity_);
    std::copy_n(entries_.get(), capacity_, longer.get());
    entries_ = std::move(longer);
    capacity_ *= 2;
  }
  for (uint32_t i = head_; i != tail_; ++i) {  // some stay, the others go to the new half
    const uint32_t at = i & mask;
    if (at == (i & mask_)) continue;
    entries_[at] = entries_[i & mask_];
    if (entries_[at].record != nullptr) entries_[at].record->position = static_cast<int32_t>(at);
  }
  mask_ = mask;
}

void ReadyFifo::Place(NodeRecord& record, RequestBlock& block) {
  if (tail_ - head_ > mask_) Grow();
  record.position = static_cast<int32_t>(tail_ & mask_);
  entries_[tail_++ & mask_] = {&record, &block};
}

void ReadyFifo::PrefetchFirst() const {
  for (uint32_t i = 0; i < kRecordAhead; ++i) PrefetchRecord(i);
  for (uint32_t i = 0; i < kNamedAhead; ++i) PrefetchNamed(i);
}

void ReadyFifo::Remove(NodeRecord& record) {
  ReadyEntry& e = entries_[static_cast<uint32_t>(record.position)];
  Check(e.record == &record, "a queued subgraph is not where it says");
  nodes_ -= NodesIn(record);
  given_way_ -= GaveWay(record);
  e = {};
}

}  // namespace cellbatch
