// What trials of this CPU's speed share: a product whose sums nobody wants, and a clock that counts nobody else's work.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TRIAL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TRIAL_H_

#include <cstdint>

#include "cells/kernels/cpu/product.h"
#include "cells/precision.h"

namespace cellbatch::kernels {

// Of the calling thread.
int64_t ThreadCpuNs();

// Sums of a segment of `depth` in kTrialGroups groups, stored as they are. Where weights are all alike they take the time of any.
constexpr int kTrialGroups = 4;
PackedProduct TrialProduct(int32_t units, int32_t depth, const Packing& packing,
                           Precision precision = Precision::kFp32);

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TRIAL_H_
