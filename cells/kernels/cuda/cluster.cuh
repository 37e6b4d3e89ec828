// Blocks of a cluster (sm_90), one beside the other on as many SMs, and the engine that copies in bulk to shared memory, of one block
// or of all of them at once. A barrier in shared memory says what has come. As PTX, and as what it means to any other compiler
// (tests run the kernels on the host).
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_CLUSTER_CUH_
#define CELLBATCH_CELLS_KERNELS_CUDA_CLUSTER_CUH_

#include "cells/kernels/cuda/intrinsics.cuh"

namespace cellbatch::cuda_kernels {

// Of so many arrivals, and of the bytes that were announced: then it begins anew. Waited for by parity: 0, 1, 0, ..
using Barrier = unsigned long long;

#ifdef __CUDACC__

__device__ __forceinline__ unsigned SharedAddress(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}
__device__ __forceinline__ void InitBarrier(Barrier* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(arrivals)
               : "memory");
}
// Behind the last InitBarrier: all blocks of the cluster see them, as does the copy engine. Every thread of every block comes here.
template <int kBlocks>
__device__ __forceinline__ void ShowBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  if (kBlocks == 1) return __syncthreads();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ int BlockOfCluster() {
  int block;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(block));
  return block;
}
// Who waits for it sees what this thread wrote before.
__device__ __forceinline__ void Arrive(Barrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(barrier)) : "memory");
}
// When all that this thread has started by CopyAsync has come: nobody waits. Of what else it wrote nothing is said.
__device__ __forceinline__ void ArriveWhenCopied(Barrier* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(SharedAddress(barrier))
               : "memory");
}
// Arrives, and announces bytes that are to come.
__device__ __forceinline__ void ArriveAndExpect(Barrier* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
               "r"(bytes)
               : "memory");
}
// At the same barrier of another block.
__device__ __forceinline__ void ArriveAt(Barrier* barrier, int block) {
  asm volatile(
      "{\n .reg .b32 at;\n mapa.shared::cluster.u32 at, %0, %1;\n"
      " mbarrier.arrive.shared::cluster.b64 _, [at];\n}" ::"r"(SharedAddress(barrier)),
      "r"(block)
      : "memory");
}
__device__ __forceinline__ void WaitFor(Barrier* barrier, unsigned parity) {
  unsigned done;
  do {
    asm volatile(
        "{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        " selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(SharedAddress(barrier)), "r"(parity)
        : "memory");
  } while (done == 0);
}
// Starts copying to the same place in all blocks of the cluster, which tells the same barrier of each. Multiples of 16 bytes.
template <int kBlocks>
__device__ __forceinline__ void BulkCopy(char* to, const char* from, int bytes, Barrier* barrier) {
  if (kBlocks == 1) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            SharedAddress(to)),
        "l"(from), "r"(bytes), "r"(SharedAddress(barrier))
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], "
        "%2, [%3], %4;" ::"r"(SharedAddress(to)),
        "l"(from), "r"(bytes), "r"(SharedAddress(barrier)),
        "h"(static_cast<unsigned short>((1 << kBlocks) - 1))
        : "memory");
  }
}

#else

inline void InitBarrier(Barrier* barrier, int arrivals) {
  cellbatch_init_barrier(barrier, arrivals);
}
template <int kBlocks>
void ShowBarriers() {
  if (kBlocks == 1) return __syncthreads();
  cellbatch_sync_cluster();
}
inline int BlockOfCluster() { return cellbatch_block_of_cluster(); }
inline void Arrive(Barrier* barrier) { cellbatch_arrive(barrier); }
inline void ArriveWhenCopied(Barrier* barrier) { cellbatch_arrive_when_copied(barrier); }
inline void ArriveAndExpect(Barrier* barrier, int bytes) {
  cellbatch_arrive_and_expect(barrier, bytes);
}
inline void ArriveAt(Barrier* barrier, int block) { cellbatch_arrive_at(barrier, block); }
inline void WaitFor(Barrier* barrier, unsigned parity) {
  cellbatch_wait_for_arrivals(barrier, parity);
}
template <int kBlocks>
void BulkCopy(char* to, const char* from, int bytes, Barrier* barrier) {
  cellbatch_bulk_copy(to, from, bytes, barrier, (1u << kBlocks) - 1);
}

#endif

// Which part a block brings of what all of a cluster want.
template <int kBlocks>
__device__ __forceinline__ int ClusterPart() {
  return kBlocks == 1 ? 0 : BlockOfCluster();
}

}  // namespace cellbatch::cuda_kernels

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_CLUSTER_CUH_
