#include "tests/bench/probes.h"

#include <time.h>

#include <algorithm>

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

double Flops(const std::string& instruction_set) {
#if defined(__x86_64__)
  if (instruction_set == "avx512") return FlopsAvx512();
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

int64_t ProcessCpuNs() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

double ProbeFmaPeak(const std::string& instruction_set) {
  double best = 0.0;
  for (int run = 0; run < 20; ++run) {
    const int64_t start = ThreadCpuNs();
    const double flops = Flops(instruction_set);
    best = std::max(best, flops / (1e-9 * static_cast<double>(ThreadCpuNs() - start)));
  }
  return best;
}

}  // namespace cellbatch
