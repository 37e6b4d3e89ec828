// One table per instruction set, each from the one file built for it. Only kernel_table.cc may call
// these: on a CPU without the instructions, the functions in a table crash.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_KERNEL_VARIANTS_H_
#define CELLBATCH_CELLS_KERNELS_CPU_KERNEL_VARIANTS_H_

#include "cells/kernels/cpu/kernel_table.h"

namespace cellbatch::kernels {

extern const CpuKernels kAvx512Bf16Kernels;  // of its own: bf16 alone (MakePairKernels)
extern const CpuKernels kAvx512Kernels;
extern const CpuKernels kAvx2Kernels;
extern const CpuKernels kPortableKernels;

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_KERNEL_VARIANTS_H_
