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

// Nanoseconds, of a clock that all kernels of a device share.
__device__ __forceinline__ long long DeviceClockNs() {
  long long ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}
// Whoever reads `value` there, host or device, sees what was written before.
__device__ __forceinline__ void StoreForAll(unsigned* to, unsigned value) {
  asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

#else

// Made when it is waited for, as a GPU may: the emulator of tests has these (tests/cuda_emulator/prelude.txt).
inline void CopyAsync16(float* to, const float* from) { cellbatch_copy_async(to, from, 16); }
inline void CopyAsync4(float* to, const float* from) { cellbatch_copy_async(to, from, 4); }
inline void CloseGroup() { cellbatch_close_group(); }
template <int kGroups>
void WaitForAllBut() {
  cellbatch_wait_for_groups(kGroups);
}
inline long long DeviceClockNs() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}
inline void StoreForAll(unsigned* to, unsigned value) {
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
}

#endif

}  // namespace cellbatch::cuda_kernels

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_INTRINSICS_CUH_
