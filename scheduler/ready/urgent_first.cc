#include "scheduler/ready/urgent_first.h"

#include <algorithm>

#include "cells/check.h"

namespace cellbatch {

UrgentFirst::UrgentFirst(ReadyFifo& fifo, int32_t capacity, int batch_limit, const uint64_t* clock)
    : fifo_(fifo), heap_(static_cast<size_t>(capacity)), clock_(clock) {
  staged_.reserve(static_cast<size_t>(std::max(capacity, batch_limit)));
}

uint64_t UrgentFirst::KeyNow(const RequestBlock& block) const {
  const uint64_t now = *clock_;
  const auto ahead = static_cast<int32_t>(block.ripe_at - static_cast<uint32_t>(now));
  return now + static_cast<uint64_t>(std::max(ahead, 0));
}

void UrgentFirst::Push(NodeRecord& record, RequestBlock& block) {
  record.position = heap_.Push(KeyNow(block), {&record, &block});
  fifo_.CountIn(record);
}

void UrgentFirst::Remove(NodeRecord& record) {
  Check(heap_.Has(record.position) && heap_.at(record.position).record == &record,
        "a queued subgraph is not where it says");
  heap_.Remove(record.position);
  fifo_.CountOut(record);
}

void UrgentFirst::Stage(int64_t most) {
  staged_.clear();
  fifo_.Restart();
  while (static_cast<int64_t>(staged_.size()) < most && !heap_.empty()) {
    const PriorityHeap::Item& item = staged_.emplace_back(heap_.PopFirst());
    fifo_.Place(*item.entry.record, *item.entry.block);
  }
}

// As a task that was formed has counted, and not what will be of the records.
void UrgentFirst::Unstage() {
  for (const PriorityHeap::Item& item : staged_) {
    NodeRecord& record = *item.entry.record;
    if (!fifo_.Holds(record)) continue;
    fifo_.Displace(record);
    record.position = heap_.PutBack(item);
  }
  staged_.clear();
}

}  // namespace cellbatch
