#include "cells/kernels/cpu/packed_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "cells/check.h"

namespace cellbatch::kernels {

namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

// `bytes` of whole huge pages, at the beginning of one.
void* MapHugePages(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  void* const mapped =
      mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(mapped);
  const size_t head = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (head > 0) munmap(begin, head);
  munmap(begin + head + size, kHugePage - head);
  // A step streams all weights through the core: with 4 KiB pages that is one page walk every 64
  // lines, and the hardware prefetcher stops at each page's end. Advice only: refused, everything
  // still works.
  madvise(begin + head, size, MADV_HUGEPAGE);
  return begin + head;
}

}  // namespace

PackedMemory::PackedMemory(int64_t floats) : size_(floats) {
  const int64_t bytes = floats * static_cast<int64_t>(sizeof(float)) + kReadablePad;
  const bool large = bytes >= kHugePage;
  const int64_t alignment = large ? kHugePage : 64;
  const int64_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* const memory =
      large ? MapHugePages(rounded)
            : std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(rounded));
  Check(memory != nullptr, "out of memory for packed weights");
  std::memset(memory, 0, static_cast<size_t>(rounded));
  data_ = {static_cast<float*>(memory), Free{large ? static_cast<size_t>(rounded) : 0}};
}

void PackedMemory::Free::operator()(float* p) const {
  if (mapped > 0) {
    munmap(p, mapped);
  } else {
    std::free(p);
  }
}

}  // namespace cellbatch::kernels
