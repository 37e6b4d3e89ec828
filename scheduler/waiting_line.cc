#include "scheduler/waiting_line.h"

#include <algorithm>
#include <bit>

#include "absl/types/span.h"
#include "cells/check.h"

namespace cellbatch {

WaitingLine::WaitingLine(int max_requests, const Priorities& priorities)
    : mask_(std::bit_ceil(static_cast<uint32_t>(std::max(max_requests, 16)) + 1) - 1),
      line_(new RequestBlock*[size_t{mask_} + 1]),
      priorities_(priorities),
      heap_(priorities.levels == 1
                ? nullptr
                : std::make_unique<PriorityHeap>(static_cast<size_t>(max_requests))) {}

void WaitingLine::Push(RequestBlock& block) {
  ++size_;
  cells_ += block.num_nodes;
  if (heap_ != nullptr) [[unlikely]] {
    const uint64_t key =
        *priorities_.clock + static_cast<uint64_t>(block.priority * priorities_.ageing);
    block.ripe_at = static_cast<uint32_t>(key);
    block.line_position = static_cast<uint32_t>(heap_->Push(key, {nullptr, &block}));
    return;
  }
  if (tail_ - head_ > mask_) CloseHoles();
  block.line_position = tail_ & mask_;
  line_[tail_++ & mask_] = &block;
}

RequestBlock* WaitingLine::Head() {
  if (heap_ != nullptr) [[unlikely]]
    return heap_->empty() ? nullptr : heap_->First().block;
  while (head_ != tail_) {
    RequestBlock* block = line_[head_ & mask_];
    if (block != nullptr) return block;
    ++head_;
  }
  return nullptr;
}

void WaitingLine::PopHead() {
  if (heap_ != nullptr) [[unlikely]]
    return Remove(*heap_->First().block);
  RequestBlock*& head = line_[head_++ & mask_];
  --size_;
  cells_ -= head->num_nodes;
  head = nullptr;
}

void WaitingLine::Remove(RequestBlock& block) {
  --size_;
  cells_ -= block.num_nodes;
  if (heap_ != nullptr) {
    const auto handle = static_cast<int32_t>(block.line_position);
    Check(heap_->Has(handle) && heap_->at(handle).block == &block,
          "a waiting request is not where it says");
    heap_->Remove(handle);
    return;
  }
  RequestBlock*& place = line_[block.line_position];
  Check(place == &block, "a waiting request is not where it says");
  place = nullptr;
}

void WaitingLine::Prefetch() const {
  constexpr uint32_t kHead = 9, kBody = 6, kRoots = 3;
  constexpr size_t kMostRoots = 4;
  if (const RequestBlock* block = Behind(kHead)) PrefetchHead(block);
  if (const RequestBlock* block = Behind(kBody)) PrefetchBody(block);
  if (const RequestBlock* block = Behind(kRoots)) {
    const absl::Span<const int32_t> roots = block->list(block->roots);
    for (const int32_t root : roots.first(std::min(kMostRoots, roots.size()))) {
      __builtin_prefetch(&block->records[root], 1);
    }
  }
}

void WaitingLine::CloseHoles() {
  uint32_t to = head_;
  for (uint32_t from = head_; from != tail_; ++from) {
    RequestBlock* block = line_[from & mask_];
    if (block == nullptr) continue;
    block->line_position = to & mask_;
    line_[to++ & mask_] = block;
  }
  tail_ = to;
  Check(tail_ - head_ <= mask_, "more requests wait than there are slots");
}

}  // namespace cellbatch
