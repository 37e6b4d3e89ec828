// A subgraph some of whose nodes may run, as queues and tasks name it, and how to load ahead of time what
// it will be asked for.
#ifndef CELLBATCH_SCHEDULER_READY_READY_ENTRY_H_
#define CELLBATCH_SCHEDULER_READY_READY_ENTRY_H_

#include <algorithm>

#include "scheduler/request_block.h"

namespace cellbatch {

struct ReadyEntry {
  NodeRecord* record = nullptr;
  RequestBlock* block = nullptr;
};

// Of its next node, as choices name it: what lies deeper than kMostDepth counts as lying there. REQUIRES: its lane keeps facts.
inline constexpr int32_t kMostDepth = 4095;
inline int32_t DepthOf(const ReadyEntry& entry, bool is_chain, int32_t next) {
  const int32_t first = entry.record->facts.depth;
  return std::min(is_chain ? first + next : first, kMostDepth);
}

// GCC takes a function that only prefetches for one without effects, and drops the calls: all of these are
// always_inline.
//
// Starts loading what a record, itself here already, names: its first reader, its part of the pool.
[[gnu::always_inline]] inline void PrefetchNamed(const ReadyEntry& entry) {
  const NodeRecord& r = *entry.record;
  if (r.consumer >= 0) __builtin_prefetch(&entry.block->records[r.consumer], 1);
  if (const int32_t tail = r.tail(); tail != 0) {
    __builtin_prefetch(entry.block->pool() + tail);
    // Its last line, of one return: a tail is seldom longer than two.
    if (r.info != 0)
      __builtin_prefetch(entry.block->pool() + r.info + kNodeInfoInts + kReturnInts - 1);
  }
}

// And all readers, once its part of the pool is here, too.
[[gnu::always_inline]] inline void PrefetchReaders(const ReadyEntry& entry) {
  const NodeRecord& r = *entry.record;
  if (r.consumer >= 0) __builtin_prefetch(&entry.block->records[r.consumer], 1);
  if (r.more_consumers == 0) return;
  for (const int32_t reader : entry.block->list(r.more_consumers)) {
    __builtin_prefetch(&entry.block->records[reader], 1);
  }
}

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_READY_READY_ENTRY_H_
