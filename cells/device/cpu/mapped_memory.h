// Large memory (cells/large_memory.h) for row tables, which are reserved large and used from the bottom.
//
// Movable, owns its memory; allocated at load time only. Readable for kReadablePad bytes beyond its end.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_MAPPED_MEMORY_H_
#define CELLBATCH_CELLS_DEVICE_CPU_MAPPED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace cellbatch {

class MappedMemory {
 public:
  static constexpr size_t kReadablePad = 4096;

  // RESOURCE_EXHAUSTED, with asked and available bytes.
  static absl::StatusOr<MappedMemory> Map(int64_t bytes);

  MappedMemory() = default;
  ~MappedMemory();
  MappedMemory(MappedMemory&& other) noexcept { *this = std::move(other); }
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t mapped_bytes_ = 0;
  int64_t size_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_MAPPED_MEMORY_H_
