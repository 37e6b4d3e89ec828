#include "tests/cuda_emulator/memory_registry.h"

#include <fmt/format.h>

#include <mutex>

namespace cellbatch::emulator {

int64_t MemoryRegistry::Add(MemoryBlock block) {
  const std::unique_lock lock(mutex_);
  block.number = ++added_;
  blocks_[block.start] = block;
  version_.fetch_add(1, std::memory_order_release);
  return block.number;
}

std::optional<MemoryBlock> MemoryRegistry::Remove(uintptr_t start) {
  const std::unique_lock lock(mutex_);
  const auto found = blocks_.find(start);
  if (found == blocks_.end()) return std::nullopt;
  const MemoryBlock block = found->second;
  blocks_.erase(found);
  version_.fetch_add(1, std::memory_order_release);
  return block;
}

const MemoryBlock* MemoryRegistry::Before(uintptr_t at) const {
  auto after = blocks_.upper_bound(at);
  return after == blocks_.begin() ? nullptr : &(--after)->second;
}

std::optional<MemoryBlock> MemoryRegistry::Holding(uintptr_t at, size_t bytes) const {
  const std::shared_lock lock(mutex_);
  const MemoryBlock* const block = Before(at);
  if (block == nullptr || !block->Holds(at, bytes)) return std::nullopt;
  return *block;
}

std::optional<MemoryBlock> MemoryRegistry::StartingAt(uintptr_t start) const {
  const std::shared_lock lock(mutex_);
  const auto found = blocks_.find(start);
  if (found == blocks_.end()) return std::nullopt;
  return found->second;
}

std::vector<MemoryBlock> MemoryRegistry::Blocks() const {
  const std::shared_lock lock(mutex_);
  std::vector<MemoryBlock> all;
  for (const auto& [start, block] : blocks_) all.push_back(block);
  return all;
}

int64_t MemoryRegistry::LiveBytes(int gpu) const {
  const std::shared_lock lock(mutex_);
  int64_t bytes = 0;
  for (const auto& [start, block] : blocks_) {
    const bool counts = gpu < 0 ? block.kind == MemoryKind::kHost
                                : block.kind == MemoryKind::kDevice && block.gpu == gpu;
    if (counts) bytes += static_cast<int64_t>(block.bytes);
  }
  return bytes;
}

std::string MemoryRegistry::Describe(uintptr_t at, size_t bytes) const {
  const std::shared_lock lock(mutex_);
  const std::string what = fmt::format("{} bytes at {:#x}", bytes, at);
  const MemoryBlock* const block = Before(at);
  if (block == nullptr) return what + ", below all that is allocated";
  const std::string of = fmt::format(
      "{} bytes of {}", block->bytes,
      block->kind == MemoryKind::kHost ? "host memory" : fmt::format("GPU {}", block->gpu));
  if (at - block->start < block->bytes) {
    return fmt::format("{}, {} behind the start of {}", what, at - block->start, of);
  }
  return fmt::format("{}, {} behind the end of {}", what, at - block->start - block->bytes, of);
}

}  // namespace cellbatch::emulator
