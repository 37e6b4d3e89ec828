// Floats that kernels stream through: 64-byte aligned, zeroed, on huge pages where the system gives
// them, and readable for kReadablePad bytes beyond the end, so that a kernel may prefetch or load
// past its last weight.
//
// Movable, owns its memory. Allocated at load time only. Small ones (below a huge page) are
// ordinary memory.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_PACKED_MEMORY_H_
#define CELLBATCH_CELLS_KERNELS_CPU_PACKED_MEMORY_H_

#include <cstdint>
#include <cstdlib>
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
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float[], Free> data_;
  int64_t size_ = 0;
};

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_PACKED_MEMORY_H_
