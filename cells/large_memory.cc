#include "cells/large_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace cellbatch {

namespace {

size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

// One huge page of addresses more than asked for holds a place to begin at; what is before and behind goes back.
void* MapHugePages(size_t bytes, Backing backing) {
  const int flags =
      MAP_PRIVATE | MAP_ANONYMOUS | (backing == Backing::kAddresses ? MAP_NORESERVE : 0);
  void* const mapped = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto at = reinterpret_cast<uintptr_t>(mapped);
  const size_t before = RoundUp(at, kHugePage) - at;
  std::byte* const begin = static_cast<std::byte*>(mapped) + before;
  if (before > 0) munmap(mapped, before);
  munmap(begin + bytes, kHugePage - before);
  madvise(begin, bytes, MADV_HUGEPAGE);  // advice: refused, everything still works
  return begin;
}

}  // namespace

void* NewLargeMemory(size_t bytes, Backing backing) {
  if (bytes >= kHugePage) return MapHugePages(RoundUp(bytes, kHugePage), backing);
  const size_t size = RoundUp(bytes, kLargeMemoryAlignment);
  void* const memory = std::aligned_alloc(kLargeMemoryAlignment, size);
  if (memory != nullptr) std::memset(memory, 0, size);
  return memory;
}

void DeleteLargeMemory(void* memory, size_t bytes) {
  if (memory == nullptr) return;
  if (bytes >= kHugePage) {
    munmap(memory, RoundUp(bytes, kHugePage));
  } else {
    std::free(memory);
  }
}

}  // namespace cellbatch
