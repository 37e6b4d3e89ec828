// What kernels need of the machine beyond CUDA C++: each as PTX, and as what it means to any other compiler (tests run the
// kernels on the host).
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_INTRINSICS_CUH_
#define CELLBATCH_CELLS_KERNELS_CUDA_INTRINSICS_CUH_

namespace cellbatch::cuda_kernels {

#ifdef __CUDACC__

// Starts copying 16 or 4 bytes to shared memory; both sides are aligned to as many.
__device__ __forceinline__ void CopyAsync16(float* to, const float* from) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}
__device__ __forceinline__ void CopyAsync4(float* to, const float* from) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
}
// What was started since the last one is one group.
__device__ __forceinline__ void CloseGroup() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until all but the latest kGroups groups of this thread are there.
template <int kGroups>
__device__ __forceinline__ void WaitForAllBut() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

#else

inline void CopyAsync16(float* to, const float* from) {
  for (int i = 0; i < 4; ++i) to[i] = from[i];
}
inline void CopyAsync4(float* to, const float* from) { *to = *from; }
inline void CloseGroup() {}
template <int kGroups>
void WaitForAllBut() {}

#endif

}  // namespace cellbatch::cuda_kernels

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_INTRINSICS_CUH_
