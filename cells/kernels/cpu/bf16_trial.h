// Which of two tables multiplies bf16 faster on this CPU: what no CPUID bit says.
//
// Dot products of pairs (vdpbf16ps) do two multiply-adds an instruction, but how many of them a core begins differs: a Zen 4 as
// many as multiply-adds, so twice the rate; an Emerald Rapids one where it begins four or five of them, so less than half of the
// rate at which pairs that are taken apart are multiplied (README.md). Both leave the same bits, so only time is at stake.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_BF16_TRIAL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_BF16_TRIAL_H_

#include "cells/kernels/cpu/kernel_table.h"

namespace cellbatch::kernels {

// Whether `other` is clearly faster than `one` at a panel that lies in a cache, 48 rows at once: the best of some runs, in turns,
// by the calling thread's CPU time. This CPU has to be able to run both. Cost: under 1 ms.
bool IsFasterInBf16(const CpuKernels& other, const CpuKernels& one);

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_BF16_TRIAL_H_
