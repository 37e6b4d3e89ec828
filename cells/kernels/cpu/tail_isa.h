// For which registers a tail is compiled (compiled_tail.h).
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TAIL_ISA_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TAIL_ISA_H_

#include <cstdint>

namespace cellbatch::kernels {

enum class TailIsa : uint8_t {
  kNone,    // never: the kernel that runs any tail runs it
  kAvx2,    // 16 registers of 8 floats, and fused multiply-adds
  kAvx512,  // 32 of 16
};

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TAIL_ISA_H_
