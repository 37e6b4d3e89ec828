#include "scheduler/graph_batch/length_buckets.h"

#include <algorithm>

#include "cells/check.h"

namespace cellbatch {

LengthBuckets::LengthBuckets(int32_t width, int max_requests)
    : width_(width), places_(static_cast<size_t>(max_requests)), buckets_(kBuckets) {
  Check(width >= 1, "a bucket holds one length at least");
}

int32_t LengthBuckets::LengthOf(const RequestBlock& block) {
  int32_t longest = 1;
  for (int32_t i = 0; i < block.num_records; ++i) {
    longest = std::max(longest, block.records[i].length);
  }
  return longest;
}

void LengthBuckets::Push(RequestBlock& block) {
  const auto slot = static_cast<int32_t>(block.slot);
  const int32_t at = std::min((LengthOf(block) - 1) / width_, kBuckets - 1);
  Bucket& bucket = buckets_[static_cast<size_t>(at)];
  Check(At(slot).block == nullptr, "a request waits twice");
  At(slot) = {&block, bucket.last, kNone, at};
  (bucket.last == kNone ? bucket.first : At(bucket.last).next) = slot;
  bucket.last = slot;
  ++size_;
}

void LengthBuckets::Remove(RequestBlock& block) {
  Check(Has(block), "a waiting request is in no bucket");
  Place& place = At(static_cast<int32_t>(block.slot));
  Bucket& bucket = buckets_[static_cast<size_t>(place.bucket)];
  (place.prev == kNone ? bucket.first : At(place.prev).next) = place.next;
  (place.next == kNone ? bucket.last : At(place.next).prev) = place.prev;
  place = {};
  --size_;
}

bool LengthBuckets::Has(const RequestBlock& block) const {
  return places_[size_t{block.slot}].block == &block;
}

RequestBlock* LengthBuckets::Next(bool begins) {
  if (begins && size_ > 0) {
    do {
      turn_ = (turn_ + 1) % kBuckets;
    } while (buckets_[static_cast<size_t>(turn_)].first == kNone);
  }
  const int32_t first = buckets_[static_cast<size_t>(turn_)].first;
  return first == kNone ? nullptr : At(first).block;
}

}  // namespace cellbatch
