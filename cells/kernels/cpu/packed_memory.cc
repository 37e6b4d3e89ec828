#include "cells/kernels/cpu/packed_memory.h"

#include <sys/mman.h>

#include <cstring>

#include "cells/check.h"

namespace cellbatch::kernels {

PackedMemory::PackedMemory(int64_t floats) : size_(floats) {
  constexpr int64_t kHugePage = int64_t{2} << 20;
  const int64_t bytes = floats * static_cast<int64_t>(sizeof(float)) + kReadablePad;
  const int64_t alignment = bytes >= kHugePage ? kHugePage : 64;
  const int64_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(rounded));
  Check(memory != nullptr, "out of memory for packed weights");
  // A step streams all weights through the core: with 4 KiB pages that is one page walk every 64
  // lines, and the hardware prefetcher stops at each page's end. Advice only: refused, everything
  // still works.
  if (bytes >= kHugePage) madvise(memory, static_cast<size_t>(rounded), MADV_HUGEPAGE);
  std::memset(memory, 0, static_cast<size_t>(rounded));
  data_.reset(static_cast<float*>(memory));
}

}  // namespace cellbatch::kernels
