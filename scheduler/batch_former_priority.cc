// BatchFormer, third part: whose place who waits may have, in lanes with priority levels.
#include <algorithm>

#include "scheduler/batch_former.h"

namespace cellbatch {

// Of the chains whose turn is over those that would come last in the queue go first, and each only for somebody who waits
// before where it would come: else it would give its place away and wait for its own again.
void BatchFormer::MakeRoomByPriority(ReadyQueue& queue, int32_t free, int32_t most) {
  RunningChains& chains = queue.chains();
  const UrgentFirst& waiting = *queue.urgent_first();
  due_.clear();
  for (const int32_t slot : chains.due()) {
    const ReadyEntry entry = chains.chain(slot);
    due_.push_back({waiting.KeyNow(*entry.block), entry});
  }
  std::sort(due_.begin(), due_.end(), [](const Due& a, const Due& b) {
    return a.key != b.key ? a.key > b.key : a.entry.record->position < b.entry.record->position;
  });
  const size_t places = std::min(due_.size(), static_cast<size_t>(std::max(most, 0)));
  for (size_t n = 0; n < places; ++n) {
    const size_t taker = static_cast<size_t>(free) + n;
    if (taker >= waiting.num_staged() || waiting.staged_key(taker) > due_[n].key) break;
    const ReadyEntry e = due_[n].entry;
    facts_.gave_way.push_back({e, chains.Remove(*e.record)});
  }
}

}  // namespace cellbatch
