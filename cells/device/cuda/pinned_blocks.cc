#include "cells/device/cuda/pinned_blocks.h"

#include <algorithm>
#include <boost/interprocess/managed_external_buffer.hpp>
#include <new>
#include <utility>

namespace cellbatch::cuda {
namespace {

constexpr size_t kLine = 64;
constexpr int64_t kLeastBytes = int64_t{1} << 16;

size_t WholeLines(int64_t bytes) {
  return (static_cast<size_t>(bytes) + kLine - 1) / kLine * kLine;
}

}  // namespace

class PinnedBlocks::Heap {
 public:
  Heap(void* memory, size_t bytes) : buffer(boost::interprocess::create_only, memory, bytes) {}
  boost::interprocess::managed_external_buffer buffer;
};

PinnedBlocks::PinnedBlocks(PinnedBuffer memory)
    : memory_(std::move(memory)),
      heap_(std::make_unique<Heap>(memory_.data(), static_cast<size_t>(memory_.bytes()))) {}

PinnedBlocks::~PinnedBlocks() = default;

absl::StatusOr<std::shared_ptr<PinnedBlocks>> PinnedBlocks::Make(
    std::shared_ptr<const GpuContext> gpu, int64_t bytes) {
  auto memory = PinnedBuffer::Make(std::move(gpu), std::max(bytes, kLeastBytes));
  if (!memory.ok()) return memory.status();
  return std::shared_ptr<PinnedBlocks>(new PinnedBlocks(*std::move(memory)));
}

std::byte* PinnedBlocks::Allocate(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  return static_cast<std::byte*>(
      heap_->buffer.allocate_aligned(WholeLines(bytes), kLine, std::nothrow));
}

void PinnedBlocks::Free(std::byte* block, int64_t) {
  const std::lock_guard lock(mutex_);
  heap_->buffer.deallocate(block);
}

int64_t PinnedBlocks::free_bytes() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(heap_->buffer.get_free_memory());
}

}  // namespace cellbatch::cuda
