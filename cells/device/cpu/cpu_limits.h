// What one step can hold on the CPU: what the compiler is told for this device.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_CPU_LIMITS_H_
#define CELLBATCH_CELLS_DEVICE_CPU_CPU_LIMITS_H_

#include "cells/kernels/cpu/product_limits.h"
#include "cells/program/program_limits.h"

namespace cellbatch {

inline constexpr ProgramLimits kCpuLimits = {
    .groups = kernels::kMaxGroups,
    .segments = kernels::kMaxSegments,
    .tail_ops = kernels::kMaxTailOps,
    .tail_columns = kernels::kMaxTailColumns,
    .arg_max_of_product = true,
    .scalars = true,
    .scratch_alignment = kernels::kLanes,  // a cache line
    .bf16_joined_depth = 32,               // a tile register's (cells/kernels/cpu/tiled_inl.h)
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_CPU_LIMITS_H_
