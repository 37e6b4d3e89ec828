#include "scheduler/graph_batch/graph_batch.h"

#include <algorithm>
#include <utility>

#include "cells/check.h"

namespace cellbatch {

GraphBatch::GraphBatch(const GraphBatching& what, int num_types, int max_requests)
    : what_(what), padded_to_(static_cast<size_t>(num_types), 0) {
  Check(what.padding != GraphBatching::Padding::kBucket || what.bucket_width > 0,
        "sequences are padded to buckets, and there are none");
  if (what.bucket_width > 0) buckets_.emplace(what.bucket_width, max_requests);
}

void GraphBatch::Begin() { std::fill(padded_to_.begin(), padded_to_.end(), 0); }

void GraphBatch::Add(int type, int32_t length) {
  int32_t& to = padded_to_[static_cast<size_t>(type)];
  if (what_.padding == GraphBatching::Padding::kBucket) {
    length = (length - 1) / what_.bucket_width * what_.bucket_width + what_.bucket_width;
  }
  to = std::max(to, length);
}

void GraphBatch::Park(RequestBlock& block) {
  block.next_leaver = nullptr;
  (last_parked_ == nullptr ? first_parked_ : last_parked_->next_leaver) = &block;
  last_parked_ = &block;
  ++parked_;
}

RequestBlock* GraphBatch::TakeParked() {
  parked_ = 0;
  last_parked_ = nullptr;
  return std::exchange(first_parked_, nullptr);
}

}  // namespace cellbatch
