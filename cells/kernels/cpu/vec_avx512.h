// Sixteen floats in one AVX-512 register: what the kernel templates need, no more. Only for files
// built with -mavx512f; in an unnamed namespace, so that no template instantiated with it can meet
// one of another ISA.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_VEC_AVX512_H_
#define CELLBATCH_CELLS_KERNELS_CPU_VEC_AVX512_H_

#include <immintrin.h>

#include <cstdint>

namespace cellbatch::kernels {
namespace {

struct Vec {
  __m512 v;

  // Some intrinsics go by their masked form with every lane on, which compiles to the same
  // instruction: gcc 12 warns of an uninitialised variable inside its own header for the plain one.
  static constexpr __mmask16 kAll = 0xffff;

  static Vec Load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Vec Broadcast(float x) { return {_mm512_set1_ps(x)}; }
  // The first `lanes` floats; the others are zero and not touched in memory.
  static Vec LoadPart(const float* p, int lanes) { return {_mm512_maskz_loadu_ps(Mask(lanes), p)}; }
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
  static Vec Abs(Vec a) { return {_mm512_abs_ps(a.v)}; }
  static Vec CopySign(Vec magnitude, Vec sign) {
    const __m512i bit = _mm512_set1_epi32(static_cast<int>(0x80000000u));
    return {_mm512_castsi512_ps(_mm512_ternarylogic_epi32(bit, _mm512_castps_si512(sign.v),
                                                          _mm512_castps_si512(magnitude.v), 0xca))};
  }
};

}  // namespace
}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_VEC_AVX512_H_
