// Sixteen floats in two AVX2 registers: see vec_avx512.h. Only for files built with -mavx2 -mfma.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_VEC_AVX2_H_
#define CELLBATCH_CELLS_KERNELS_CPU_VEC_AVX2_H_

#include <immintrin.h>

#include <cstdint>

#include "cells/kernels/cpu/tail_isa.h"

namespace cellbatch::kernels {
namespace {

struct Vec {
  __m256 l, h;

  static constexpr int kAbreast = 3, kTurnsAhead = 3;
  static constexpr TailIsa kTailIsa = TailIsa::kAvx2;

  using Doubles [[gnu::vector_size(32), gnu::aligned(8)]] = double;
  // Adds what its lanes hold to so many sums of doubles.
  static void AddWidened(Vec a, Doubles* sums) {
    sums[0] += _mm256_cvtps_pd(_mm256_castps256_ps128(a.l));
    sums[1] += _mm256_cvtps_pd(_mm256_extractf128_ps(a.l, 1));
    sums[2] += _mm256_cvtps_pd(_mm256_castps256_ps128(a.h));
    sums[3] += _mm256_cvtps_pd(_mm256_extractf128_ps(a.h, 1));
  }

  static Vec Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static Vec Broadcast(float x) {
    const __m256 v = _mm256_set1_ps(x);
    return {v, v};
  }
  // The first `lanes` floats; the others are zero and not touched in memory.
  static Vec LoadPart(const float* p, int lanes) {
    return {_mm256_maskload_ps(p, Mask(lanes)), _mm256_maskload_ps(p + 8, Mask(lanes - 8))};
  }
  static Vec LoadInt8(const int8_t* p) { return {EightInt8(p), EightInt8(p + 8)}; }
  static Vec LoadLowHalves(const uint16_t* p) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(EightPairs(p), 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(EightPairs(p + 16), 16))};
  }
  static Vec LoadHighHalves(const uint16_t* p) {
    const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
    return {_mm256_castsi256_ps(_mm256_and_si256(EightPairs(p), high)),
            _mm256_castsi256_ps(_mm256_and_si256(EightPairs(p + 16), high))};
  }
  static Vec RoundToBf16(Vec a) { return {RoundToBf16(a.l), RoundToBf16(a.h)}; }
  void Store(float* p) const {
    _mm256_storeu_ps(p, l);
    _mm256_storeu_ps(p + 8, h);
  }
  void StorePart(float* p, int lanes) const {
    _mm256_maskstore_ps(p, Mask(lanes), l);
    _mm256_maskstore_ps(p + 8, Mask(lanes - 8), h);
  }
  static __m256i Mask(int lanes) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }

  friend Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.l, b.l), _mm256_add_ps(a.h, b.h)}; }
  friend Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.l, b.l), _mm256_sub_ps(a.h, b.h)}; }
  friend Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.l, b.l), _mm256_mul_ps(a.h, b.h)}; }
  friend Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.l, b.l), _mm256_div_ps(a.h, b.h)}; }
  static Vec Fma(Vec a, Vec b, Vec c) {
    return {_mm256_fmadd_ps(a.l, b.l, c.l), _mm256_fmadd_ps(a.h, b.h, c.h)};
  }
  // Where either is NaN: the second.
  static Vec Max(Vec a, Vec b) { return {_mm256_max_ps(a.l, b.l), _mm256_max_ps(a.h, b.h)}; }
  static Vec Min(Vec a, Vec b) { return {_mm256_min_ps(a.l, b.l), _mm256_min_ps(a.h, b.h)}; }
  static Vec RoundToInt(Vec a) { return {Round(a.l), Round(a.h)}; }
  // a * 2^n for whole n, with gradual underflow and overflow to infinity.
  static Vec Scale(Vec a, Vec n) { return {Scale(a.l, n.l), Scale(a.h, n.h)}; }
  // As in vec_avx512.h.
  static Vec PowerOf2(Vec n) { return {PowerOf2<127>(n.l), PowerOf2<127>(n.h)}; }
  static Vec HalfPower(Vec p, Vec n) {
    const Vec whole = Broadcast(1.0f) + p;
    return {_mm256_mul_ps(whole.l, PowerOf2<126>(n.l)), _mm256_mul_ps(whole.h, PowerOf2<126>(n.h))};
  }
  static Vec Abs(Vec a) { return {AndNot(a.l), AndNot(a.h)}; }
  static Vec CopySign(Vec magnitude, Vec sign) {
    return {CopySign(magnitude.l, sign.l), CopySign(magnitude.h, sign.h)};
  }
  // Finite x > 0 is m * 2^n: m in [sqrt(1/2), sqrt(2)), n whole.
  static Vec SplitLog(Vec x, Vec& n) { return {SplitLog(x.l, n.l), SplitLog(x.h, n.h)}; }
  // `log`, but minus infinity of zero, NaN of what is below, infinity of infinity.
  static Vec LogOrLimit(Vec x, Vec log) { return {LogOrLimit(x.l, log.l), LogOrLimit(x.h, log.h)}; }

 private:
  static __m256 EightInt8(const int8_t* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  }
  static __m256i EightPairs(const uint16_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static __m256 RoundToBf16(__m256 a) {
    const __m256i bits = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i raised = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
    const __m256 rounded = _mm256_blendv_ps(_mm256_castsi256_ps(raised), _mm256_castsi256_ps(quiet),
                                            _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    return _mm256_and_ps(rounded,
                         _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(0xffff0000u))));
  }
  static __m256 SignBit() { return _mm256_set1_ps(-0.0f); }
  static __m256 AndNot(__m256 a) { return _mm256_andnot_ps(SignBit(), a); }
  static __m256 CopySign(__m256 magnitude, __m256 sign) {
    return _mm256_or_ps(_mm256_andnot_ps(SignBit(), magnitude), _mm256_and_ps(SignBit(), sign));
  }
  static __m256 Round(__m256 a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  // In two halves, because 2^n alone may not be a float where a * 2^n is. |n| <= 252.
  static __m256 Scale(__m256 a, __m256 n) {
    const __m256i whole = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(whole, 1);
    return _mm256_mul_ps(_mm256_mul_ps(a, Power(half)), Power(_mm256_sub_epi32(whole, half)));
  }
  static __m256 SplitLog(__m256 x, __m256& n) {
    const __m256 subnormal = _mm256_cmp_ps(x, _mm256_set1_ps(0x1p-126f), _CMP_LT_OQ);
    const __m256 raised = _mm256_mul_ps(x, _mm256_set1_ps(0x1p23f));
    const __m256i root = _mm256_set1_epi32(0x3f3504f3);  // of 1/2
    const __m256i shifted =
        _mm256_sub_epi32(_mm256_castps_si256(_mm256_blendv_ps(x, raised, subnormal)), root);
    const __m256i lowered = _mm256_and_si256(_mm256_castps_si256(subnormal), _mm256_set1_epi32(23));
    n = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_srai_epi32(shifted, 23), lowered));
    const __m256i mantissa = _mm256_and_si256(shifted, _mm256_set1_epi32(0x007fffff));
    return _mm256_castsi256_ps(_mm256_add_epi32(mantissa, root));
  }
  static __m256 LogOrLimit(__m256 x, __m256 log) {
    const __m256 zero = _mm256_setzero_ps(), infinity = _mm256_set1_ps(__builtin_inff());
    __m256 y = _mm256_blendv_ps(log, infinity, _mm256_cmp_ps(x, infinity, _CMP_EQ_OQ));
    y = _mm256_blendv_ps(y, _mm256_set1_ps(-__builtin_inff()), _mm256_cmp_ps(x, zero, _CMP_EQ_OQ));
    return _mm256_blendv_ps(y, _mm256_set1_ps(__builtin_nanf("")),
                            _mm256_cmp_ps(x, zero, _CMP_NGE_UQ));  // negative, or NaN
  }
  // 2^(n + kBias - 127): added to 2^23, a whole number lies in the lowest bits.
  template <int kBias>
  static __m256 PowerOf2(__m256 n) {
    const __m256 biased = _mm256_add_ps(n, _mm256_set1_ps(0x1p23f + kBias));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(biased), 23));
  }
  static __m256 Power(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }
};

}  // namespace
}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_VEC_AVX2_H_
