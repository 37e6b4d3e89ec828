// Measures, once at start, what no CPUID bit says: which way of streaming weights is fastest on this machine.
//
// A batch of a few rows reads each weight once, as fast as memory gives it. On one machine (Zen 4) the hardware
// prefetcher does that best undisturbed; on another (a Xeon with a slow L3) software prefetching more than doubled it; a
// third (Zen 5) gives two streams more than one, where the weights are too many for its L3.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TUNING_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TUNING_H_

#include <string>

#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/product.h"

namespace cellbatch::kernels {

// Runs a product of 8 MiB some times each way, taking turns, on the calling thread, for every number of rows that these
// kernels stream a panel's weights once for: about 20 ms. A way other than the usual one has to be clearly faster: 8 MiB
// lie in most machines' L3, where ways differ less than where weights come from memory. Results of kernels do not depend
// on the answer, only their speed.
Tuning MeasureTuning(const CpuKernels& kernels);

// For people: "as usual", or "1: prefetched, 4: undisturbed, else as usual".
std::string Describe(const Tuning& tuning);

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TUNING_H_
