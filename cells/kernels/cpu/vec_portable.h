// Sixteen floats in plain C++: see vec_avx512.h. Products and sums round separately here (a fused
// multiply-add is a library call where the compiler may not assume the instruction): other last
// bits than the vector variants, the same guarantees.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_VEC_PORTABLE_H_
#define CELLBATCH_CELLS_KERNELS_CPU_VEC_PORTABLE_H_

#include <bit>
#include <cstdint>

namespace cellbatch::kernels {
namespace {

struct Vec {
  float v[16];

  static constexpr int kAbreast = 1;
  static constexpr bool kRunsCompiledTails = false;

  using Doubles [[gnu::vector_size(16), gnu::aligned(8)]] = double;
  using HalfFloats [[gnu::vector_size(8), gnu::aligned(4)]] = float;
  static Doubles Widened(HalfFloats a) { return __builtin_convertvector(a, Doubles); }

  template <class F>
  static Vec Make(F f) {
    Vec r;
    for (int i = 0; i < 16; ++i) r.v[i] = f(i);
    return r;
  }
  static Vec Load(const float* p) {
    return Make([p](int i) { return p[i]; });
  }
  static Vec Broadcast(float x) {
    return Make([x](int) { return x; });
  }
  // The first `lanes` floats; the others are zero and not touched in memory.
  static Vec LoadPart(const float* p, int lanes) {
    return Make([p, lanes](int i) { return i < lanes ? p[i] : 0.0f; });
  }
  static Vec LoadInt8(const int8_t* p) {
    return Make([p](int i) { return static_cast<float>(p[i]); });
  }
  static Vec LoadLowHalves(const uint16_t* p) {
    return Make([p](int i) { return std::bit_cast<float>(uint32_t{p[2 * i]} << 16); });
  }
  static Vec LoadHighHalves(const uint16_t* p) {
    return Make([p](int i) { return std::bit_cast<float>(uint32_t{p[2 * i + 1]} << 16); });
  }
  static Vec RoundToBf16(Vec a) {
    return Make([&](int i) {
      const uint32_t bits = Bits(a.v[i]), raised = bits + 0x7fffu + ((bits >> 16) & 1u);
      const uint32_t rounded = a.v[i] == a.v[i] ? raised : bits | 0x00400000u;
      return std::bit_cast<float>(rounded & 0xffff0000u);
    });
  }
  // As the kernels of CPUs that multiply pairs have them: these tables do not, but tests lay their tiles with them.
  void StorePairs(float* p, int words = 8) const {
    for (int i = 0; i < words; ++i) {
      p[i] = std::bit_cast<float>((Bits(v[2 * i]) & 0xffff0000u) | Bits(v[2 * i + 1]) >> 16);
    }
  }
  static Vec MultiplyAddPairs(Vec x, Vec weights, Vec sum) {
    const auto first = [](Vec a) {
      return Make([&](int i) { return std::bit_cast<float>(Bits(a.v[i]) & 0xffff0000u); });
    };
    const auto second = [](Vec a) {
      return Make([&](int i) { return std::bit_cast<float>(Bits(a.v[i]) << 16); });
    };
    return Fma(second(x), second(weights), Fma(first(x), first(weights), sum));
  }
  void Store(float* p) const {
    for (int i = 0; i < 16; ++i) p[i] = v[i];
  }
  void StorePart(float* p, int lanes) const {
    for (int i = 0; i < lanes; ++i) p[i] = v[i];
  }

  friend Vec operator+(Vec a, Vec b) {
    return Make([&](int i) { return a.v[i] + b.v[i]; });
  }
  friend Vec operator-(Vec a, Vec b) {
    return Make([&](int i) { return a.v[i] - b.v[i]; });
  }
  friend Vec operator*(Vec a, Vec b) {
    return Make([&](int i) { return a.v[i] * b.v[i]; });
  }
  friend Vec operator/(Vec a, Vec b) {
    return Make([&](int i) { return a.v[i] / b.v[i]; });
  }
  static Vec Fma(Vec a, Vec b, Vec c) {
    return Make([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
  }
  // Where either is NaN: the second.
  static Vec Max(Vec a, Vec b) {
    return Make([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  static Vec Min(Vec a, Vec b) {
    return Make([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  // For |a| < 2^22: adding 1.5 * 2^23 leaves no bits for a fraction.
  static Vec RoundToInt(Vec a) {
    return Make([&](int i) { return (a.v[i] + 12582912.0f) - 12582912.0f; });
  }
  // a * 2^n for whole |n| <= 252, with gradual underflow and overflow to infinity. NaN stays NaN.
  static Vec Scale(Vec a, Vec n) {
    return Make([&](int i) {
      const float whole_or_zero = n.v[i] == n.v[i] ? n.v[i] : 0.0f;
      const int32_t whole = static_cast<int32_t>(whole_or_zero), half = whole >> 1;
      return a.v[i] * Power(half) * Power(whole - half);
    });
  }
  // As in vec_avx512.h. NaN stays NaN.
  static Vec PowerOf2(Vec n) { return Scale(Broadcast(1.0f), n); }
  static Vec HalfPower(Vec p, Vec n) { return Scale(Fma(p, Broadcast(0.5f), Broadcast(0.5f)), n); }
  static Vec Abs(Vec a) {
    return Make([&](int i) { return std::bit_cast<float>(Bits(a.v[i]) & 0x7fffffffu); });
  }
  static Vec CopySign(Vec magnitude, Vec sign) {
    return Make([&](int i) {
      return std::bit_cast<float>((Bits(magnitude.v[i]) & 0x7fffffffu) |
                                  (Bits(sign.v[i]) & 0x80000000u));
    });
  }
  // Finite x > 0 is m * 2^n: m in [sqrt(1/2), sqrt(2)), n whole.
  static Vec SplitLog(Vec x, Vec& n) {
    Vec mantissa;
    for (int i = 0; i < 16; ++i) {
      const bool subnormal = x.v[i] < 0x1p-126f;
      const uint32_t root = 0x3f3504f3u;  // of 1/2
      const uint32_t shifted = Bits(subnormal ? x.v[i] * 0x1p23f : x.v[i]) - root;
      n.v[i] = static_cast<float>((static_cast<int32_t>(shifted) >> 23) - (subnormal ? 23 : 0));
      mantissa.v[i] = std::bit_cast<float>((shifted & 0x007fffffu) + root);
    }
    return mantissa;
  }
  // `log`, but minus infinity of zero, NaN of what is below, infinity of infinity.
  static Vec LogOrLimit(Vec x, Vec log) {
    const float infinity = std::bit_cast<float>(0x7f800000u);
    return Make([&](int i) {
      if (x.v[i] == 0.0f) return -infinity;
      if (!(x.v[i] > 0.0f)) return std::bit_cast<float>(0x7fc00000u);
      return x.v[i] == infinity ? infinity : log.v[i];
    });
  }

 private:
  static uint32_t Bits(float x) { return std::bit_cast<uint32_t>(x); }
  static float Power(int32_t n) { return std::bit_cast<float>((n + 127) << 23); }
};

}  // namespace
}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_VEC_PORTABLE_H_
