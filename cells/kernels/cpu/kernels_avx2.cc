// Built with -mavx2 -mfma; called only where the CPU and the system have them.
#include "cells/kernels/cpu/kernel_table_inl.h"
#include "cells/kernels/cpu/kernel_variants.h"
#include "cells/kernels/cpu/vec_avx2.h"

namespace cellbatch::kernels {
namespace {

// 16 registers, two to a column: 6 rows x 1 column of sums, 1 weight, 1 input; fewer rows leave
// room for columns.
struct Tiling {
  static constexpr int kRows = 6;
  static constexpr int kBlock = 64;
  static constexpr int Columns(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }
};

}  // namespace

const CpuKernels kAvx2Kernels = MakeKernels<Vec, Tiling>("avx2");

}  // namespace cellbatch::kernels
