#include "cells/kernels/cpu/packed_memory.h"

#include <cstring>

#include "cells/check.h"
#include "cells/large_memory.h"

namespace cellbatch::kernels {

PackedMemory::PackedMemory(int64_t floats) : size_(floats) {
  const size_t bytes = static_cast<size_t>(floats) * sizeof(float) + kReadablePad;
  void* const memory = NewLargeMemory(bytes, Backing::kCounted);
  Check(memory != nullptr, "out of memory for packed weights");
  std::memset(memory, 0, bytes);  // the pages come now, not in the first step
  data_ = {static_cast<float*>(memory), Free{bytes}};
}

void PackedMemory::Free::operator()(float* p) const { DeleteLargeMemory(p, bytes); }

}  // namespace cellbatch::kernels
