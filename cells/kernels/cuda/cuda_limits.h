// What one step can hold on a CUDA device: what the compiler is told for these devices.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_CUDA_LIMITS_H_
#define CELLBATCH_CELLS_KERNELS_CUDA_CUDA_LIMITS_H_

#include "cells/program/program_limits.h"

namespace cellbatch {

inline constexpr ProgramLimits kCudaLimits = {
    .groups = 5,
    .segments = 8,
    .tail_ops = 64,
    .tail_columns = 16,
    .arg_max_of_product = false,
    .scalars = false,
    .scratch_alignment = 8,  // 16 bytes of bf16
    .tf32 = true,
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_CUDA_LIMITS_H_
