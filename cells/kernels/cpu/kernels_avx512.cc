// Built with -mavx512f -mavx512bw -mavx512vl -mavx512dq; called only where the CPU and the system
// have them.
#include "cells/kernels/cpu/kernel_table_inl.h"
#include "cells/kernels/cpu/kernel_variants.h"
#include "cells/kernels/cpu/tiling.h"
#include "cells/kernels/cpu/vec_avx512.h"

namespace cellbatch::kernels {

const CpuKernels kAvx512Kernels = MakeKernels<Vec, Avx512Tiling>("avx512");

}  // namespace cellbatch::kernels
