// What kernels need of the machine beyond CUDA C++: each as PTX, and as what it means to any other compiler (tests run the
// kernels on the host).
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_INTRINSICS_CUH_
#define CELLBATCH_CELLS_KERNELS_CUDA_INTRINSICS_CUH_

namespace cellbatch::cuda_kernels {

#ifdef __CUDACC__

// Starts copying 16 or 4 bytes to shared memory; both sides are aligned to as many.
__device__ __forceinline__ void CopyAsync16(void* to, const void* from) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}
__device__ __forceinline__ void CopyAsync4(float* to, const float* from) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
}
// 16 bytes, of which the first `bytes` are copied and the others become zeros.
__device__ __forceinline__ void CopyAsync16Of(void* to, const void* from, int bytes) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes)
               : "memory");
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

// Of a whole warp, sums += a . b, 16 units by 16 k by 8 nodes, two bf16 a word. Lane 4 g + t has in a.x, a.z unit g's and in a.y,
// a.w unit g + 8's: x, y k 2 t and 2 t + 1, z, w those 8 further; in b0, b1 node g's, likewise; sums of unit g, nodes 2 t and
// 2 t + 1, then of unit g + 8.
__device__ __forceinline__ void MmaBf16(float (&sums)[4], const uint4& a, unsigned b0,
                                        unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
// Likewise of 8 k, one tf32 a word: an fp32 whose lowest 13 bits are ignored. x, y, b0: k t; z, w, b1: k t + 4.
__device__ __forceinline__ void MmaTf32(float (&sums)[4], const uint4& a, unsigned b0,
                                        unsigned b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// An fp32 by its bits: of a denormal zero, of NaN one that stays NaN without its lowest bits.
__device__ __forceinline__ unsigned Flushed(unsigned bits) {
  float y;
  asm("add.ftz.f32 %0, %1, 0f80000000;" : "=f"(y) : "f"(__uint_as_float(bits)));
  return __float_as_uint(y);
}

// As near as the machine does at once: two units in the last place.
__device__ __forceinline__ float NearPowerOf2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float NearReciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Of a kernel that may begin while the one before it runs (a programmatic dependent launch): until that has ended and what it
// wrote is there. Nothing that another kernel writes is touched before. Nothing to wait for in any other launch.
__device__ __forceinline__ void GridDependencyWait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The kernel behind this one may begin once all blocks have come here, or ended.
__device__ __forceinline__ void GridDependentsMayBegin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
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
inline void CopyAsync16(void* to, const void* from) { cellbatch_copy_async(to, 16, from, 16); }
inline void CopyAsync16Of(void* to, const void* from, int bytes) {
  cellbatch_copy_async(to, 16, from, static_cast<size_t>(bytes));
}
inline void CopyAsync4(float* to, const float* from) { cellbatch_copy_async(to, 4, from, 4); }
inline void CloseGroup() { cellbatch_close_group(); }
template <int kGroups>
void WaitForAllBut() {
  cellbatch_wait_for_groups(kGroups);
}
inline void MmaBf16(float (&sums)[4], const uint4& a, unsigned b0, unsigned b1) {
  const unsigned given[6] = {a.x, a.y, a.z, a.w, b0, b1};
  CellbatchMmaBf16(sums, given);
}
inline void MmaTf32(float (&sums)[4], const uint4& a, unsigned b0, unsigned b1) {
  const unsigned given[6] = {a.x, a.y, a.z, a.w, b0, b1};
  CellbatchMmaTf32(sums, given);
}
inline unsigned Flushed(unsigned bits) { return CellbatchFlushed(bits); }
inline float NearPowerOf2(float x) { return exp2f(x); }
inline float NearReciprocal(float x) { return 1.0f / x; }
inline void GridDependencyWait() { cellbatch_wait_for_grids(); }
inline void GridDependentsMayBegin() {}
inline long long DeviceClockNs() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}
inline void StoreForAll(unsigned* to, unsigned value) {
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
}

#endif

}  // namespace cellbatch::cuda_kernels

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_INTRINSICS_CUH_
