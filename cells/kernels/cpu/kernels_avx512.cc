// Built with -mavx512f -mavx512bw -mavx512vl -mavx512dq; called only where the CPU and the system
// have them.
#include "cells/kernels/cpu/kernel_table_inl.h"
#include "cells/kernels/cpu/kernel_variants.h"
#include "cells/kernels/cpu/vec_avx512.h"

namespace cellbatch::kernels {
namespace {

// 32 registers: 6 rows x 4 columns of sums, 4 weights, 1 input.
struct Tiling {
  static constexpr int kRows = 6;
  static constexpr int kBlock = 512;  // of K: README.md has the sweep
  static constexpr int Columns(int) { return 4; }
};

}  // namespace

const CpuKernels kAvx512Kernels = MakeKernels<Vec, Tiling>("avx512");

}  // namespace cellbatch::kernels
