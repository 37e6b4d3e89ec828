#include "tests/cuda_emulator/stream_order.h"

#include <algorithm>
#include <iterator>

namespace cellbatch::emulator {

void StreamOrder::Begins(const StreamPlace& place) {
  place_ = place;
  begun_[now() % kRemembered] = {now(), place.stream};
  met_ = false;
  const uint32_t since =
      std::max(place.begun_before, now() < kRemembered ? 0 : now() - kRemembered);
  for (uint32_t other = now() - 1; other > since && !met_; --other) {
    met_ = Unordered(other);
  }
  unordered_.clear();
  if (!met_) return;
  std::copy_if(ranges_.begin(), ranges_.end(), std::back_inserter(unordered_),
               [&](const Range& range) { return Unordered(range.operation); });
}

void StreamOrder::Touches(uintptr_t from, uintptr_t to, bool writes) {
  if (!place_.others_wait) return;
  ranges_.push_back({now(), from, to, writes});
  if (ranges_.size() > kMostRanges) ranges_.pop_front();
}

const StreamOrder::Range* StreamOrder::Meets(uintptr_t from, uintptr_t to, bool writes) const {
  for (const Range& range : unordered_) {
    if (range.from < to && from < range.to && (writes || range.writes)) return &range;
  }
  return nullptr;
}

}  // namespace cellbatch::emulator
