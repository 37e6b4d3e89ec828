// Plain C++ for any CPU: correct everywhere, as fast as the compiler makes it.
#include "cells/kernels/cpu/kernel_table_inl.h"
#include "cells/kernels/cpu/kernel_variants.h"
#include "cells/kernels/cpu/vec_portable.h"

namespace cellbatch::kernels {
namespace {

// On a bare x86-64, four registers to a column: 2 rows x 1 column of sums, 1 weight, 1 input.
struct Tiling {
  static constexpr int kRows = 2;
  static constexpr int kBlock = 64;
  static constexpr int Columns(int rows) { return rows == 1 ? 2 : 1; }
};

}  // namespace

const CpuKernels kPortableKernels = MakeKernels<Vec, Tiling>("portable");

}  // namespace cellbatch::kernels
