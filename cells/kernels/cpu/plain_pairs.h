// Tables for tests, which multiply bf16 in pairs as CPUs with dot products do, but in plain arithmetic: by the tiles of each
// instruction set. All else is the portable table's.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_PLAIN_PAIRS_H_
#define CELLBATCH_CELLS_KERNELS_CPU_PLAIN_PAIRS_H_

#include "cells/kernels/cpu/kernel_table.h"

namespace cellbatch::kernels {

// Each has a file of its own, as many tiles are as slow to compile as they are many.
CpuKernels PlainAvx512Pairs();
CpuKernels PlainAvx2Pairs();
CpuKernels PlainPortablePairs();

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_PLAIN_PAIRS_H_
