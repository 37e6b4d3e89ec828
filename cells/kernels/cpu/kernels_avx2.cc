// Built with -mavx2 -mfma; called only where the CPU and the system have them.
#include "cells/kernels/cpu/kernel_table_inl.h"
#include "cells/kernels/cpu/kernel_variants.h"
#include "cells/kernels/cpu/tiling.h"
#include "cells/kernels/cpu/vec_avx2.h"

namespace cellbatch::kernels {

const CpuKernels kAvx2Kernels = MakeKernels<Vec, Avx2Tiling>("avx2");

}  // namespace cellbatch::kernels
