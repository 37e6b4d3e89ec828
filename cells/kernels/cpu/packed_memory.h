// Floats that kernels stream through: 64-byte aligned, zeroed, on huge pages where the system gives
// them, and readable for kReadablePad bytes beyond the end, so that a kernel may prefetch or load
// past its last weight.
//
// Movable, owns its memory. Allocated at load time only. Small ones (below a huge page) are
// ordinary memory; others are mapped from the system and go back to it at once: malloc would keep
// an unloaded model's weights, and lay the next ones on the small pages that it kept.
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
    Free() : mapped(0) {}
    explicit Free(size_t bytes) : mapped(bytes) {}
    void operator()(float* p) const;
    size_t mapped;  // bytes; 0: malloc's
  };
  std::unique_ptr<float[], Free> data_;
  int64_t size_ = 0;
};

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_PACKED_MEMORY_H_
