// Sixteen floats in one AVX-512 register: what the kernel templates need, no more. Only for files
// built with -mavx512f; in an unnamed namespace, so that no template instantiated with it can meet
// one of another ISA.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_VEC_AVX512_H_
#define CELLBATCH_CELLS_KERNELS_CPU_VEC_AVX512_H_

#include <immintrin.h>

#include <cstdint>

#include "cells/kernels/cpu/tail_isa.h"

namespace cellbatch::kernels {
namespace {

struct Vec {
  __m512 v;

  // Rows whose functions are computed side by side (abreast.h): as many as registers hold.
  static constexpr int kAbreast = 4, kTurnsAhead = 0;
  // Tails that were compiled for these registers are run.
  static constexpr TailIsa kTailIsa = TailIsa::kAvx512;

  // A register of doubles. (Aligned as one is: under AddressSanitizer GCC 12 gives objects on the stack less than they ask
  // for, its bug 110027.)
  using Doubles [[gnu::vector_size(64), gnu::aligned(8)]] = double;

  // Some intrinsics go by their masked form with every lane on, which compiles to the same
  // instruction: gcc 12 warns of an uninitialised variable inside its own header for the plain one.
  static constexpr __mmask16 kAll = 0xffff;

  // Adds what its lanes hold to so many sums of doubles.
  static void AddWidened(Vec a, Doubles* sums) {
    sums[0] += _mm512_maskz_cvtps_pd(0xff, _mm512_maskz_extractf32x8_ps(0xff, a.v, 0));
    sums[1] += _mm512_maskz_cvtps_pd(0xff, _mm512_maskz_extractf32x8_ps(0xff, a.v, 1));
  }

  static Vec Load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Vec Broadcast(float x) { return {_mm512_set1_ps(x)}; }
  // The first `lanes` floats; the others are zero and not touched in memory.
  static Vec LoadPart(const float* p, int lanes) { return {_mm512_maskz_loadu_ps(Mask(lanes), p)}; }
  static Vec LoadInt8(const int8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm512_maskz_cvtepi32_ps(kAll, _mm512_maskz_cvtepi8_epi32(kAll, bytes))};
  }
  // Of 16 pairs of bf16 the first of each, and the second.
  static Vec LoadLowHalves(const uint16_t* p) {
    return {_mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, _mm512_loadu_si512(p), 16))};
  }
  static Vec LoadHighHalves(const uint16_t* p) {
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), high))};
  }
  // To the nearest of those without a lower half, ties to even; NaN stays NaN.
  static Vec RoundToBf16(Vec a) {
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    return {_mm512_castsi512_ps(_mm512_and_si512(Rounded(a), upper))};
  }
  // 32 numbers, rounded, as pairs: of the first 16, then of the others. (Not by the CPU's instruction, to which the largest
  // denormal number is zero: rounded, it is a normal one.)
  static void StoreTwoAsPairs(Vec a, Vec b, float* p) {
    alignas(64) static constexpr uint16_t kUpperHalves[32] = {
        3,  1,  7,  5,  11, 9,  15, 13, 19, 17, 23, 21, 27, 25, 31, 29,
        35, 33, 39, 37, 43, 41, 47, 45, 51, 49, 55, 53, 59, 57, 63, 61};
    const __m512i halves = _mm512_load_si512(kUpperHalves);
    _mm512_storeu_si512(p, _mm512_permutex2var_epi16(Rounded(a), halves, Rounded(b)));
  }
  // Of what was rounded, pairs: element 2 i above, 2 i + 1 below in word i.
  void StorePairs(float* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), Pairs()); }
  void StorePairs(float* p, int words) const {
    _mm256_mask_storeu_epi32(p, static_cast<__mmask8>((1u << words) - 1u), Pairs());
  }
#ifdef __AVX512BF16__
  // sum = fma(second elements, fma(first elements, sum)): the instruction begins with what lies above.
  static Vec MultiplyAddPairs(Vec x, Vec weights, Vec sum) {
    return {_mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(weights.v),
                             reinterpret_cast<__m512bh>(x.v))};
  }
#endif
  void Store(float* p) const { _mm512_storeu_ps(p, v); }
  void StorePart(float* p, int lanes) const { _mm512_mask_storeu_ps(p, Mask(lanes), v); }
  static __mmask16 Mask(int lanes) { return static_cast<__mmask16>((1u << lanes) - 1u); }

  friend Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
  friend Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
  friend Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
  friend Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
  static Vec Fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  // Where either is NaN: the second.
  static Vec Max(Vec a, Vec b) { return {_mm512_maskz_max_ps(kAll, a.v, b.v)}; }
  static Vec Min(Vec a, Vec b) { return {_mm512_maskz_min_ps(kAll, a.v, b.v)}; }
  static Vec RoundToInt(Vec a) {
    return {_mm512_maskz_roundscale_ps(kAll, a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  // a * 2^n for whole n, with gradual underflow and overflow to infinity.
  static Vec Scale(Vec a, Vec n) { return {_mm512_maskz_scalef_ps(kAll, a.v, n.v)}; }
  // 2^n for whole n in [-126, 127].
  static Vec PowerOf2(Vec n) { return Scale(Broadcast(1.0f), n); }
  // (1 + p) 2^(n - 1) for p in [-1/3, 1/2] and whole n in [-126, 129]; of the least it may be 0.
  static Vec HalfPower(Vec p, Vec n) { return Scale(Fma(p, Broadcast(0.5f), Broadcast(0.5f)), n); }
  static Vec Abs(Vec a) { return {_mm512_abs_ps(a.v)}; }
  static Vec CopySign(Vec magnitude, Vec sign) {
    const __m512i bit = _mm512_set1_epi32(static_cast<int>(0x80000000u));
    return {_mm512_castsi512_ps(_mm512_ternarylogic_epi32(bit, _mm512_castps_si512(sign.v),
                                                          _mm512_castps_si512(magnitude.v), 0xca))};
  }
  // Finite x > 0 is m * 2^n: m in [sqrt(1/2), sqrt(2)), n whole.
  static Vec SplitLog(Vec x, Vec& n) {
    const __m512 least = _mm512_set1_ps(0x1p-126f);
    const __mmask16 subnormal = _mm512_cmp_ps_mask(x.v, least, _CMP_LT_OQ);
    const __m512 normal = _mm512_mask_mul_ps(x.v, subnormal, x.v, _mm512_set1_ps(0x1p23f));
    const __m512i root = _mm512_set1_epi32(0x3f3504f3);  // of 1/2
    const __m512i shifted = _mm512_sub_epi32(_mm512_castps_si512(normal), root);
    __m512i exponent = _mm512_maskz_srai_epi32(kAll, shifted, 23);
    exponent = _mm512_mask_sub_epi32(exponent, subnormal, exponent, _mm512_set1_epi32(23));
    n = {_mm512_maskz_cvtepi32_ps(kAll, exponent)};
    const __m512i mantissa = _mm512_and_si512(shifted, _mm512_set1_epi32(0x007fffff));
    return {_mm512_castsi512_ps(_mm512_add_epi32(mantissa, root))};
  }
  // `log`, but minus infinity of zero, NaN of what is below, infinity of infinity.
  static Vec LogOrLimit(Vec x, Vec log) {
    const __m512 zero = _mm512_setzero_ps(), infinity = _mm512_set1_ps(__builtin_inff());
    const __mmask16 none = _mm512_cmp_ps_mask(x.v, zero, _CMP_NGE_UQ);  // negative, or NaN
    const __mmask16 least = _mm512_cmp_ps_mask(x.v, zero, _CMP_EQ_OQ);
    const __mmask16 most = _mm512_cmp_ps_mask(x.v, infinity, _CMP_EQ_OQ);
    __m512 y = _mm512_mask_mov_ps(log.v, most, infinity);
    y = _mm512_mask_mov_ps(y, least, _mm512_set1_ps(-__builtin_inff()));
    return {_mm512_mask_mov_ps(y, none, _mm512_set1_ps(__builtin_nanf("")))};
  }

 private:
  // What RoundToBf16 says in the upper halves, and anything in the lower ones.
  static __m512i Rounded(Vec a) {
    const __m512i bits = _mm512_castps_si512(a.v);
    const __m512i odd =
        _mm512_and_si512(_mm512_maskz_srli_epi32(kAll, bits, 16), _mm512_set1_epi32(1));
    const __m512i raised = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(raised, nan, bits, _mm512_set1_epi32(0x00400000));
  }
  __m256i Pairs() const {
    const __m512i two = _mm512_castps_si512(v), upper = _mm512_set1_epi64(0xffff0000);
    const __m512i pairs =
        _mm512_or_si512(_mm512_and_si512(two, upper), _mm512_maskz_srli_epi64(0xff, two, 48));
    return _mm512_maskz_cvtepi64_epi32(0xff, pairs);
  }
};

}  // namespace
}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_VEC_AVX512_H_
