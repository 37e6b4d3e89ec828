// Zeroed memory straight from the system: page after page comes into being when it is first touched, on huge pages
// where the system gives them. For row tables, which are reserved large and used from the bottom.
//
// Movable, owns its memory; allocated at load time only. 64-byte aligned (2 MiB from that size on).
#ifndef CELLBATCH_CELLS_DEVICE_CPU_MAPPED_MEMORY_H_
#define CELLBATCH_CELLS_DEVICE_CPU_MAPPED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace cellbatch {

class MappedMemory {
 public:
  // RESOURCE_EXHAUSTED, with asked and available bytes.
  static absl::StatusOr<MappedMemory> Map(int64_t bytes);

  MappedMemory() = default;
  ~MappedMemory();
  MappedMemory(MappedMemory&& other) noexcept { *this = std::move(other); }
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(mapped_, other.mapped_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  void* mapped_ = nullptr;
  int64_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_MAPPED_MEMORY_H_
