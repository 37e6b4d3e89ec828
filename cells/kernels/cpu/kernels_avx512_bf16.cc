// Built with the flags of kernels_avx512.cc and -mavx512bf16; called only where the CPU and the system have all of them.
#include "cells/kernels/cpu/kernel_table_inl.h"
#include "cells/kernels/cpu/kernel_variants.h"
#include "cells/kernels/cpu/tiling.h"
#include "cells/kernels/cpu/vec_avx512.h"

namespace cellbatch::kernels {

const CpuKernels kAvx512Bf16Kernels = MakePairKernels<Vec, Avx512Tiling>("avx512_bf16");

}  // namespace cellbatch::kernels
