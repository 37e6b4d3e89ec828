// Floats that kernels stream through: large memory (cells/large_memory.h) whose pages are there from the start, and readable
// for kReadablePad bytes beyond the end, so that a kernel may prefetch or load past its last weight.
//
// Movable, owns its memory. Allocated at load time only.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_PACKED_MEMORY_H_
#define CELLBATCH_CELLS_KERNELS_CPU_PACKED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace cellbatch::kernels {

class PackedMemory {
 public:
  static constexpr int64_t kReadablePad = 4096;

  PackedMemory() = default;
  explicit PackedMemory(int64_t floats);

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  int64_t size() const { return size_; }  // floats

 private:
  struct Free {
    Free() : bytes(0) {}
    explicit Free(size_t size) : bytes(size) {}
    void operator()(float* p) const;
    size_t bytes;
  };
  std::unique_ptr<float[], Free> data_;
  int64_t size_ = 0;
};

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_PACKED_MEMORY_H_
