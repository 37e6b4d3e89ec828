// Measures, once at start, what no CPUID bit says: which of two ways of streaming weights is faster on this machine.
//
// A batch of a few rows reads each weight once, as fast as memory gives it. On one machine (Zen 4) the hardware
// prefetcher does that best undisturbed; on another (a Xeon with a slow L3) software prefetching more than doubled it.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TUNING_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TUNING_H_

#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/product.h"

namespace cellbatch::kernels {

// Runs a 16 MiB product some times each way, taking turns, on the calling thread: about 30 ms. Of as many rows as these
// kernels stream a panel's weights once for (3 of AVX-512's 6, AVX2's 1); where there is no such number, there is no
// choice and nothing is measured. Results of kernels do not depend on the answer, only their speed.
Tuning MeasureTuning(const CpuKernels& kernels);

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TUNING_H_
