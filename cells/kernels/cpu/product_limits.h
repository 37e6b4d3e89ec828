// What one product can hold on this device: registers, and scratch of a fixed size. The compiler is told them as
// ProgramLimits (cells/device/cpu/cpu_limits.h) and cuts in two what does not fit.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_PRODUCT_LIMITS_H_
#define CELLBATCH_CELLS_KERNELS_CPU_PRODUCT_LIMITS_H_

namespace cellbatch::kernels {

inline constexpr int kLanes = 16;     // units of one block, floats of one cache line
inline constexpr int kMaxGroups = 5;  // a binary TreeLSTM has i, o, u and two forget gates
inline constexpr int kMaxSegments = 8;
inline constexpr int kMaxTailOps = 96;
inline constexpr int kMaxTailColumns = 16;

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_PRODUCT_LIMITS_H_
