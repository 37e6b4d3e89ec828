// The matrix instructions of Hopper GPUs (sm_90a): four warps multiply what lies in shared memory while they do something else. As
// PTX, and as what it means to any other compiler (tests run the kernels on the host).
//
// A tile in shared memory: rows of 64 k, 128 bytes each, eight of them 1,024 bytes that begin at a multiple of that; the 16 bytes
// number p of row r lie where p ^ (r % 8) would lie, so that neither who writes a row nor who reads a column meets himself.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_WGMMA_CUH_
#define CELLBATCH_CELLS_KERNELS_CUDA_WGMMA_CUH_

namespace cellbatch::cuda_kernels {

inline constexpr int kWgmmaAligned = 1024;
inline constexpr int kWgmmaDepth = 64;  // k of a tile

// Where in a tile the 16 bytes `part` of row `row` lie.
__device__ __forceinline__ int WgmmaPartAt(int row, int part) {
  return row * 128 + (part ^ row % 8) * 16;
}

#ifdef __CUDACC__

__device__ __forceinline__ char* WgmmaAligned(char* at) {
  const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(at));
  return at + (kWgmmaAligned - shared % kWgmmaAligned) % kWgmmaAligned;
}

// sums += tile a (64 rows) . tile b (kColumns rows), 16 k of each. Lane 4 g + t of warp w of the four: of columns 8 n + 2 t and one
// further, rows 16 w + g and 8 further: d[4 n .. 4 n + 3].
template <int kColumns>
__device__ __forceinline__ void WgmmaBf16(float (&d)[kColumns / 2], unsigned long long a,
                                          unsigned long long b);
template <>
__device__ __forceinline__ void WgmmaBf16<8>(float (&d)[4], unsigned long long a,
                                               unsigned long long b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3"
      "}, %4, %5, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b));
}

template <>
__device__ __forceinline__ void WgmmaBf16<16>(float (&d)[8], unsigned long long a,
                                               unsigned long long b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7"
      "}, %8, %9, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
        "+f"(d[6]), "+f"(d[7])
      : "l"(a), "l"(b));
}

template <>
__device__ __forceinline__ void WgmmaBf16<32>(float (&d)[16], unsigned long long a,
                                               unsigned long long b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
      "}, %16, %17, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
        "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
        "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "l"(a), "l"(b));
}

template <>
__device__ __forceinline__ void WgmmaBf16<64>(float (&d)[32], unsigned long long a,
                                               unsigned long long b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, %32, %33, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
        "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
        "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
        "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
        "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b));
}

template <>
__device__ __forceinline__ void WgmmaBf16<128>(float (&d)[64], unsigned long long a,
                                               unsigned long long b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
        "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
        "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
        "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
        "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
        "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),
        "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
        "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "l"(a), "l"(b));
}

// How an instruction is told of a tile: its address, eight rows 1,024 bytes from the next, in that order of parts.
__device__ __forceinline__ unsigned long long WgmmaTile(const char* tile) {
  const auto at = static_cast<unsigned long long>(__cvta_generic_to_shared(tile));
  return (at & 0x3ffffull) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

// Step `step` of the 4 of a tile's 64 k.
template <int kColumns>
__device__ __forceinline__ void WgmmaStep(float (&d)[kColumns / 2], const char* a, const char* b,
                                          int step) {
  WgmmaBf16<kColumns>(d, WgmmaTile(a) + 2 * step, WgmmaTile(b) + 2 * step);
}
// What is known to be in shared memory, whoever wrote it, is there for the instructions behind this. Waits for all copies of this thread.
__device__ __forceinline__ void ShowToWgmma() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Before the first instruction, and wherever registers of sums were touched.
__device__ __forceinline__ void WgmmaBegin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// What was issued since the last one is one group.
__device__ __forceinline__ void WgmmaClose() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kGroups>
__device__ __forceinline__ void WgmmaWaitForAllBut() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}

#else

inline char* WgmmaAligned(char* at) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  return at + (kWgmmaAligned - address % kWgmmaAligned) % kWgmmaAligned;
}

// One row's 16 k of a step, as numbers.
inline void WgmmaRow(const char* tile, int row, int step, double (&to)[16]) {
  for (int half = 0; half < 2; ++half) {
    const uint4 words =
        *reinterpret_cast<const uint4*>(tile + WgmmaPartAt(row, 2 * step + half));
    const unsigned all[4] = {words.x, words.y, words.z, words.w};
    for (int i = 0; i < 8; ++i) {
      to[8 * half + i] = __uint_as_float(i % 2 == 0 ? all[i / 2] << 16 : all[i / 2] & 0xffff0000u);
    }
  }
}

// Made at once; the products of an instruction are added up exactly, and then to the sum.
template <int kColumns>
void WgmmaStep(float (&d)[kColumns / 2], const char* a, const char* b, int step) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  double rows[2][16], column[16];
  for (int i = 0; i < 2; ++i) WgmmaRow(a, 16 * warp + lane / 4 + 8 * i, step, rows[i]);
  for (int c = 0; c < kColumns / 4; ++c) {
    WgmmaRow(b, c / 2 * 8 + lane % 4 * 2 + c % 2, step, column);
    for (int i = 0; i < 2; ++i) {
      double sum = 0.0;
      for (int k = 0; k < 16; ++k) sum += rows[i][k] * column[k];
      float& to = d[c / 2 * 4 + i * 2 + c % 2];
      to = static_cast<float>(to + sum);
    }
  }
}
inline void ShowToWgmma() {}
inline void WgmmaBegin() {}
inline void WgmmaClose() {}
// Made by all lanes together, and waited for likewise.
template <int kGroups>
void WgmmaWaitForAllBut() {
  __syncwarp();
}

#endif

}  // namespace cellbatch::cuda_kernels

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_WGMMA_CUH_
