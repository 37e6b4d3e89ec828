#include "cells/device/cuda/pinned_blocks.h"

#include <sched.h>

#include <algorithm>
#include <utility>

namespace cellbatch::cuda {
namespace {

constexpr int64_t kLeastBytes = int64_t{1} << 16;

// Of the CPU that this thread runs on, or just ran on: it need not stay there.
int Shard() {
  return static_cast<int>(static_cast<unsigned>(sched_getcpu()) % unsigned{ShardedHeap::kShards});
}

}  // namespace

PinnedBlocks::PinnedBlocks(PinnedBuffer memory)
    : memory_(std::move(memory)), heap_(memory_.data(), memory_.bytes()) {}

absl::StatusOr<std::shared_ptr<PinnedBlocks>> PinnedBlocks::Make(
    std::shared_ptr<const GpuContext> gpu, int64_t bytes) {
  auto memory = PinnedBuffer::Make(std::move(gpu), std::max(bytes, kLeastBytes));
  if (!memory.ok()) return memory.status();
  return std::shared_ptr<PinnedBlocks>(new PinnedBlocks(*std::move(memory)));
}

std::byte* PinnedBlocks::Allocate(int64_t bytes) { return heap_.Allocate(bytes, Shard()); }

void PinnedBlocks::Free(std::byte* block, int64_t bytes) { heap_.Free(block, bytes, Shard()); }

int64_t PinnedBlocks::free_bytes() { return heap_.FreeBytes(); }

}  // namespace cellbatch::cuda
