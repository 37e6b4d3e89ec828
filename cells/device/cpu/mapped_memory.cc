#include "cells/device/cpu/mapped_memory.h"

#include <sys/mman.h>

#include <optional>

#include "absl/status/status.h"
#include "cells/device/cpu/process_limits.h"
#include "fmt/format.h"

namespace cellbatch {

absl::StatusOr<MappedMemory> MappedMemory::Map(int64_t bytes) {
  constexpr int64_t kHugePage = int64_t{2} << 20;
  const std::optional<int64_t> available = AvailableMemoryBytes();
  const auto exhausted = [&] {
    return absl::ResourceExhaustedError(
        fmt::format("{} bytes asked for, {} available", bytes, available.value_or(0)));
  };
  if (available.has_value() && bytes > *available) return exhausted();
  const bool huge = bytes >= kHugePage;
  MappedMemory memory;
  memory.mapped_bytes_ =
      bytes + (huge ? kHugePage : 0) + 4096;  // to align, and readable beyond the end
  void* const mapped = mmap(nullptr, static_cast<size_t>(memory.mapped_bytes_),
                            PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return exhausted();
  memory.mapped_ = mapped;
  const auto at = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t aligned = huge ? (at + kHugePage - 1) / kHugePage * kHugePage : at;
  memory.data_ = reinterpret_cast<std::byte*>(aligned);
  memory.size_ = bytes;
  // Advice only: refused, everything still works.
  if (huge) madvise(memory.data_, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return memory;
}

MappedMemory::~MappedMemory() {
  if (mapped_ != nullptr) munmap(mapped_, static_cast<size_t>(mapped_bytes_));
}

}  // namespace cellbatch
