#include "cells/kernels/cpu/packed_memory.h"

#include <cstring>
#include <new>

#include "cells/device/cpu/process_limits.h"
#include "cells/large_memory.h"

namespace cellbatch::kernels {

// Throws std::bad_alloc: a model that has no room is not loaded, which is no end of those that are.
PackedMemory::PackedMemory(int64_t floats) : size_(floats) {
  const size_t bytes = static_cast<size_t>(floats) * sizeof(float) + kReadablePad;
  RequireMemory(static_cast<int64_t>(bytes));
  void* const memory = NewLargeMemory(bytes, Backing::kCounted);
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0, bytes);  // the pages come now, not in the first step
  data_ = {static_cast<float*>(memory), Free{bytes}};
}

void PackedMemory::Free::operator()(float* p) const { DeleteLargeMemory(p, bytes); }

}  // namespace cellbatch::kernels
