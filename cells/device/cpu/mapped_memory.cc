#include "cells/device/cpu/mapped_memory.h"

#include <optional>

#include "absl/status/status.h"
#include "cells/device/cpu/process_limits.h"
#include "cells/large_memory.h"
#include "fmt/format.h"

namespace cellbatch {

absl::StatusOr<MappedMemory> MappedMemory::Map(int64_t bytes) {
  const std::optional<int64_t> available = AvailableMemoryBytes();
  const auto exhausted = [&] {
    return absl::ResourceExhaustedError(
        fmt::format("{} bytes asked for, {} available", bytes, available.value_or(0)));
  };
  if (available.has_value() && bytes > *available) return exhausted();
  MappedMemory memory;
  memory.mapped_bytes_ = static_cast<size_t>(bytes) + kReadablePad;
  memory.data_ = static_cast<std::byte*>(NewLargeMemory(memory.mapped_bytes_, Backing::kCounted));
  if (memory.data_ == nullptr) return exhausted();
  memory.size_ = bytes;
  return memory;
}

MappedMemory::~MappedMemory() { DeleteLargeMemory(data_, mapped_bytes_); }

}  // namespace cellbatch
