// Plain C++ for any CPU: correct everywhere, as fast as the compiler makes it.
#include "cells/kernels/cpu/kernel_table_inl.h"
#include "cells/kernels/cpu/kernel_variants.h"
#include "cells/kernels/cpu/tiling.h"
#include "cells/kernels/cpu/vec_portable.h"

namespace cellbatch::kernels {

const CpuKernels kPortableKernels = MakeKernels<Vec, PortableTiling>("portable");

}  // namespace cellbatch::kernels
