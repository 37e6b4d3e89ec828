#include "tests/cuda_emulator/driver/emulated_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace cellbatch::emulator {
namespace {

using cuda::Result;

constexpr size_t kGuard = 256, kPage = 4096, kDeviceAlignment = 256, kHostAlignment = 64;
constexpr int kUnwritten = 0xff;
constexpr Result kInvalidValue = 1;

// Exactly so much and no more: a multiple of the alignment, and of twice that only for a whole page.
size_t FirstByte(size_t alignment) { return alignment == kPage ? kPage : kPage + alignment; }

bool IsUnwritten(const std::byte* from, const std::byte* to) {
  return std::all_of(from, to, [](std::byte b) { return b == std::byte{kUnwritten}; });
}

}  // namespace

Result EmulatedMemory::Allocate(MemoryKind kind, int gpu, size_t bytes, uintptr_t* start) {
  if (bytes == 0) return kInvalidValue;
  const std::lock_guard lock(mutex_);
  const bool device = kind == MemoryKind::kDevice;
  if (device) {
    const auto live = static_cast<size_t>(registry_.LiveBytes(gpu));
    if (bytes > gpu_bytes_ - live) return cuda::kOutOfMemory;
  }
  size_t alignment = kDeviceAlignment;
  if (!device) alignment = kHostAlignment << (allocations_++ % 7);  // 64 .. 4096
  const size_t first = FirstByte(alignment);
  if (bytes > SIZE_MAX / 2) return cuda::kOutOfMemory;
  const size_t whole = (first + bytes + kGuard + kPage - 1) / kPage * kPage;
  auto* const base = static_cast<std::byte*>(std::aligned_alloc(kPage, whole));
  if (base == nullptr) return cuda::kOutOfMemory;
  std::memset(base + first - kGuard, kUnwritten, kGuard + bytes + kGuard);
  *start = reinterpret_cast<uintptr_t>(base + first);
  bases_[*start] = base;
  registry_.Add({.start = *start, .bytes = bytes, .kind = kind, .gpu = gpu});
  return cuda::kSuccess;
}

Result EmulatedMemory::Free(MemoryKind kind, uintptr_t start) {
  const std::lock_guard lock(mutex_);
  const std::optional<MemoryBlock> block = registry_.StartingAt(start);
  if (!block.has_value() || block->kind != kind) return kInvalidValue;
  GiveBack(*block);
  return cuda::kSuccess;
}

void EmulatedMemory::FreeAllOf(int gpu, bool leaks) {
  const std::lock_guard lock(mutex_);
  for (const MemoryBlock& block : registry_.Blocks()) {
    if (block.gpu != gpu) continue;
    if (leaks) {
      findings_.Add(
          fmt::format("GPU {}: its context goes, and {} bytes of {} memory were not freed", gpu,
                      block.bytes, block.kind == MemoryKind::kHost ? "host" : "device"));
    }
    GiveBack(block);
  }
}

void EmulatedMemory::GiveBack(const MemoryBlock& block) {
  registry_.Remove(block.start);
  const auto* const first = reinterpret_cast<const std::byte*>(block.start);
  const std::byte* const end = first + block.bytes;
  if (!IsUnwritten(first - kGuard, first) || !IsUnwritten(end, end + kGuard)) {
    findings_.Add(fmt::format("GPU {}: somebody wrote {} {} bytes of {} memory", block.gpu,
                              IsUnwritten(first - kGuard, first) ? "behind" : "before", block.bytes,
                              block.kind == MemoryKind::kHost ? "host" : "device"));
  }
  const auto base = bases_.find(block.start);
  std::free(base->second);
  bases_.erase(base);
}

}  // namespace cellbatch::emulator
