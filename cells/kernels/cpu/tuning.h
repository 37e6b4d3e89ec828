// Measures, once at start, what no CPUID bit says: in which way so many rows read weights fastest on this machine.
//
// A batch of few rows reads each weight once, as fast as memory gives it; a larger one has other work meanwhile, if what it
// needs next is on its way. What brings it differs: on a Zen 4 the hardware's prefetchers bring 46 GB/s from memory and
// prefetch instructions to L1 13; on a Xeon with a slow L3 those instructions more than doubled what a single row had; a
// Zen 5 gives two streams more than one, where the weights are too many for its L3. And what is best from L3 is not
// what is best from memory: so both are measured.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TUNING_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TUNING_H_

#include <cstdint>
#include <string>

#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/product.h"

namespace cellbatch::kernels {

// What tuning may take, for as long as it runs.
struct TuningLimits {
  int64_t memory_bytes = int64_t{96} << 20;  // of weights to read from memory
};

// Runs every class of batches in every way that these kernels have for it, ways taking turns, on the calling thread: with
// weights that fill half of L3 (8 or 16 MiB), and with pieces of 8 MiB of half as much again as L3 holds, each met again
// when all others have been. About 0.1 s, and as much again; where L3's size is unknown or `limits` leave no room, weights from memory are
// read as usual. A way other than the usual one has to be clearly faster. Results of kernels do not depend on the answer,
// only their speed.
Tuning MeasureTuning(const CpuKernels& kernels, const TuningLimits& limits = {});

// What Tuning::multiply_adds_per_ns is: the best of some runs of one panel, which lies in L2 then; about 1 ms.
double MeasureMultiplyAddsPerNs(const CpuKernels& kernels);

// For people: "as usual", or "1: prefetched, 9-16: spread, else as usual; from memory 4: undisturbed, else as usual".
std::string Describe(const Tuning& tuning);

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TUNING_H_
