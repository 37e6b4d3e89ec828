#include "tests/bench/probes.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cellbatch {
namespace {

constexpr int kChains = 12;
constexpr int kSteps = 400000;

// Keeps a value alive and unknown to the optimiser.
template <class V>
inline void Opaque(V& v) {
  __asm__ volatile("" : "+x"(v));
}

#if defined(__x86_64__)

// kChains independent chains: more than latency x throughput on every CPU we know.
__attribute__((target("avx512f"))) double FlopsAvx512() {
  __m512 sum[kChains];
  for (__m512& s : sum) s = _mm512_set1_ps(1.0f);
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(1e-3f);
  for (int i = 0; i < kSteps; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) sum[c] = _mm512_fmadd_ps(sum[c], a, b);
  }
  for (__m512& s : sum) __asm__ volatile("" : "+v"(s));
  return 2.0 * 16 * kChains * kSteps;
}

__attribute__((target("avx2,fma"))) double FlopsAvx2() {
  __m256 sum[kChains];
  for (__m256& s : sum) s = _mm256_set1_ps(1.0f);
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(1e-3f);
  for (int i = 0; i < kSteps; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) sum[c] = _mm256_fmadd_ps(sum[c], a, b);
  }
  for (__m256& s : sum) Opaque(s);
  return 2.0 * 8 * kChains * kSteps;
}

// Registers 0 to 3 are sums, 4 and 5 rows, 6 and 7 weights.
double FlopsOfTiles() {
  struct {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } const shapes;
  __asm__ volatile("ldtilecfg %0" ::"m"(shapes) : "memory");
  for (int i = 0; i < kSteps; ++i) {
    __asm__ volatile(
        "tdpbf16ps %tmm6, %tmm4, %tmm0\n\ttdpbf16ps %tmm7, %tmm4, %tmm1\n\t"
        "tdpbf16ps %tmm6, %tmm5, %tmm2\n\ttdpbf16ps %tmm7, %tmm5, %tmm3");
  }
  __asm__ volatile("tilerelease");
  return 4.0 * 2 * 16 * 16 * 32 * kSteps;
}

#else

double FlopsOfTiles() { return 0.0; }

#endif

double FlopsPortable() {
  float sum[kChains][4];
  for (auto& s : sum) std::fill_n(s, 4, 1.0f);
  for (int i = 0; i < kSteps; ++i) {
#pragma GCC unroll 16
    for (auto& s : sum) {
#pragma GCC unroll 4
      for (float& lane : s) lane = lane * 0.999f + 1e-3f;
    }
  }
  float all = 0.0f;
  for (auto& s : sum) all += s[0] + s[1] + s[2] + s[3];
  Opaque(all);
  return 2.0 * 4 * kChains * kSteps;
}

// What a tile reads: weights and rows of so many steps of k, 16 KiB and 1.5 KiB for the longest registers.
constexpr int kTileDepth = 64;
constexpr int kTileRows = 6;
constexpr int kTileColumns = 64;
struct TileOperands {
  TileOperands() {
    std::fill_n(weights, kTileDepth * kTileColumns, 1e-3f);
    std::fill_n(&rows[0][0], kTileRows * kTileDepth, 1e-3f);
  }
  alignas(64) float weights[kTileDepth * kTileColumns];
  float rows[kTileRows][kTileDepth];
};
constexpr int kTiles = 1500;

#if defined(__x86_64__)

// Rows x registers of sums; a step of k reads each register of weights once, and a number of each row. The sums stay: what
// a tile costs beside its steps is the kernel's.
__attribute__((target("avx512f"))) double FedFlopsAvx512(const TileOperands& o) {
  __m512 s0[kTileRows], s1[kTileRows], s2[kTileRows], s3[kTileRows];
#pragma GCC unroll 6
  for (int r = 0; r < kTileRows; ++r) s0[r] = s1[r] = s2[r] = s3[r] = _mm512_setzero_ps();
  for (int t = 0; t < kTiles; ++t) {
    const float* w = o.weights;
    for (int k = 0; k < kTileDepth; ++k, w += kTileColumns) {
      const __m512 w0 = _mm512_load_ps(w), w1 = _mm512_load_ps(w + 16);
      const __m512 w2 = _mm512_load_ps(w + 32), w3 = _mm512_load_ps(w + 48);
#pragma GCC unroll 6
      for (int r = 0; r < kTileRows; ++r) {
        const __m512 x = _mm512_set1_ps(o.rows[r][k]);
        s0[r] = _mm512_fmadd_ps(x, w0, s0[r]);
        s1[r] = _mm512_fmadd_ps(x, w1, s1[r]);
        s2[r] = _mm512_fmadd_ps(x, w2, s2[r]);
        s3[r] = _mm512_fmadd_ps(x, w3, s3[r]);
      }
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kTileRows; ++r) {
    __asm__ volatile("" : "+v"(s0[r]), "+v"(s1[r]), "+v"(s2[r]), "+v"(s3[r]));
  }
  return 2.0 * 64 * kTileRows * kTileDepth * kTiles;
}

__attribute__((target("avx2,fma"))) double FedFlopsAvx2(const TileOperands& o) {
  __m256 s0[kTileRows], s1[kTileRows];
#pragma GCC unroll 6
  for (int r = 0; r < kTileRows; ++r) s0[r] = s1[r] = _mm256_setzero_ps();
  for (int t = 0; t < kTiles; ++t) {
    const float* w = o.weights;
    for (int k = 0; k < kTileDepth; ++k, w += kTileColumns) {
      const __m256 w0 = _mm256_load_ps(w), w1 = _mm256_load_ps(w + 8);
#pragma GCC unroll 6
      for (int r = 0; r < kTileRows; ++r) {
        const __m256 x = _mm256_broadcast_ss(&o.rows[r][k]);
        s0[r] = _mm256_fmadd_ps(x, w0, s0[r]);
        s1[r] = _mm256_fmadd_ps(x, w1, s1[r]);
      }
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kTileRows; ++r) __asm__ volatile("" : "+x"(s0[r]), "+x"(s1[r]));
  return 2.0 * 16 * kTileRows * kTileDepth * kTiles;
}

#endif

// Two rows by four registers of four.
double FedFlopsPortable(const TileOperands& o) {
  constexpr int kRows = 2, kWide = 16;
  float sum[kRows][kWide] = {};
  for (int t = 0; t < kTiles; ++t) {
    for (int k = 0; k < kTileDepth; ++k) {
      const float* const w = o.weights + k * kTileColumns;
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
        for (int c = 0; c < kWide; ++c) sum[r][c] += o.rows[r][k] * w[c];
      }
    }
  }
  float all = 0.0f;
  for (auto& row : sum) {
    for (const float s : row) all += s;
  }
  Opaque(all);
  return 2.0 * kRows * kWide * kTileDepth * kTiles;
}

double FedFlops(const std::string& instruction_set, const TileOperands& operands) {
#if defined(__x86_64__)
  if (instruction_set.rfind("avx512", 0) == 0) return FedFlopsAvx512(operands);
  if (instruction_set == "avx2") return FedFlopsAvx2(operands);
#endif
  return FedFlopsPortable(operands);
}

// Flops a second; `run` returns how many it did.
template <class Run>
double BestOf(int runs, const Run& run) {
  double best = 0.0;
  for (int i = 0; i < runs; ++i) {
    const int64_t start = ThreadCpuNs();
    const double flops = run();
    best = std::max(best, flops / (1e-9 * static_cast<double>(ThreadCpuNs() - start)));
  }
  return best;
}

double Flops(const std::string& instruction_set) {
#if defined(__x86_64__)
  if (instruction_set.rfind("avx512", 0) == 0) return FlopsAvx512();
  if (instruction_set == "avx2") return FlopsAvx2();
#endif
  return FlopsPortable();
}

}  // namespace

int64_t ThreadCpuNs() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

double ProbeTilePeak(int runs) { return BestOf(runs, FlopsOfTiles); }

int64_t ProcessCpuNs() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

double ProbeFmaPeak(const std::string& instruction_set, int runs) {
  return BestOf(runs, [&] { return Flops(instruction_set); });
}

double ProbeFedPeak(const std::string& instruction_set, int runs) {
  const TileOperands operands;
  return BestOf(runs, [&] { return FedFlops(instruction_set, operands); });
}

double IdleCores() {
  const int64_t start = ProcessCpuNs();
  constexpr std::chrono::milliseconds kNap(40);
  std::this_thread::sleep_for(kNap);
  return static_cast<double>(ProcessCpuNs() - start) /
         static_cast<double>(std::chrono::nanoseconds(kNap).count());
}

}  // namespace cellbatch
