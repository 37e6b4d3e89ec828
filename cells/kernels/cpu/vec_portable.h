// Sixteen floats in plain C++: see vec_avx512.h. Products and sums round separately here (a fused
// multiply-add is a library call where the compiler may not assume the instruction): other last
// bits than the vector variants, the same guarantees.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_VEC_PORTABLE_H_
#define CELLBATCH_CELLS_KERNELS_CPU_VEC_PORTABLE_H_

#include <bit>
#include <cstdint>

#include "cells/kernels/cpu/tail_isa.h"

namespace cellbatch::kernels {
namespace {

struct Vec {
  // Four at a time, which compilers turn into the instructions that every x86-64 has. (They make worse ones, and take longer,
  // where an operation is said of sixteen elements one by one.)
  using Four [[gnu::vector_size(16)]] = float;
  using FourBits [[gnu::vector_size(16)]] = uint32_t;
  using FourWhole [[gnu::vector_size(16)]] = int32_t;
  Four v[4];

  static constexpr int kAbreast = 1, kTurnsAhead = 0;
  static constexpr TailIsa kTailIsa = TailIsa::kNone;

  using Doubles [[gnu::vector_size(16), gnu::aligned(8)]] = double;
  // Adds what its lanes hold to so many sums of doubles.
  static void AddWidened(Vec a, Doubles* sums) {
    for (int i = 0; i < 16; i += 2) {
      const Four four = a.v[i / 4];
      sums[i / 2] += Doubles{four[i % 4], four[i % 4 + 1]};
    }
  }

  static Vec Load(const float* p) {
    return Make([p](int i) { return Read<Four>(p + 4 * i); });
  }
  static Vec Broadcast(float x) {
    return Make([x](int) { return All(x); });
  }
  // The first `lanes` floats; the others are zero and not touched in memory.
  static Vec LoadPart(const float* p, int lanes) {
    float all[16] = {};
    for (int i = 0; i < lanes && i < 16; ++i) all[i] = p[i];
    return Load(all);
  }
  static Vec LoadInt8(const int8_t* p) {
    using FourBytes [[gnu::vector_size(4)]] = int8_t;
    return Make([p](int i) { return __builtin_convertvector(Read<FourBytes>(p + 4 * i), Four); });
  }
  static Vec LoadLowHalves(const uint16_t* p) {
    return Make([p](int i) { return Floats(Read<FourBits>(p + 8 * i) << 16); });
  }
  static Vec LoadHighHalves(const uint16_t* p) {
    return Make([p](int i) { return Floats(Read<FourBits>(p + 8 * i) & kUpper); });
  }
  static Vec RoundToBf16(Vec a) {
    return Make([&](int i) {
      const FourBits bits = Bits(a.v[i]), raised = bits + 0x7fffu + ((bits >> 16) & 1u);
      const FourBits rounded = a.v[i] == a.v[i] ? raised : bits | 0x00400000u;
      return Floats(rounded & kUpper);
    });
  }
  // As the kernels of CPUs that multiply pairs have them: these tables do not, but tests lay their tiles with them.
  void StorePairs(float* p, int words = 8) const {
    float all[16];
    Store(all);
    for (int i = 0; i < words; ++i) {
      p[i] = std::bit_cast<float>((std::bit_cast<uint32_t>(all[2 * i]) & kUpper) |
                                  std::bit_cast<uint32_t>(all[2 * i + 1]) >> 16);
    }
  }
  static Vec MultiplyAddPairs(Vec x, Vec weights, Vec sum) {
    return Make([&](int i) {
      const FourBits a = Bits(x.v[i]), b = Bits(weights.v[i]);
      const Four first = Floats(a & kUpper) * Floats(b & kUpper) + sum.v[i];
      return Floats(a << 16) * Floats(b << 16) + first;
    });
  }
  void Store(float* p) const { __builtin_memcpy(p, v, sizeof(v)); }
  void StorePart(float* p, int lanes) const {
    float all[16];
    Store(all);
    for (int i = 0; i < lanes && i < 16; ++i) p[i] = all[i];
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
      const Four whole_or_zero = n.v[i] == n.v[i] ? n.v[i] : Four{};
      const FourWhole whole = __builtin_convertvector(whole_or_zero, FourWhole);
      const FourWhole half = whole >> 1;
      return a.v[i] * Power(half) * Power(whole - half);
    });
  }
  // As in vec_avx512.h. NaN stays NaN.
  static Vec PowerOf2(Vec n) { return Scale(Broadcast(1.0f), n); }
  static Vec HalfPower(Vec p, Vec n) { return Scale(Fma(p, Broadcast(0.5f), Broadcast(0.5f)), n); }
  static Vec Abs(Vec a) {
    return Make([&](int i) { return Floats(Bits(a.v[i]) & 0x7fffffffu); });
  }
  static Vec CopySign(Vec magnitude, Vec sign) {
    return Make([&](int i) {
      return Floats((Bits(magnitude.v[i]) & 0x7fffffffu) | (Bits(sign.v[i]) & 0x80000000u));
    });
  }
  // Finite x > 0 is m * 2^n: m in [sqrt(1/2), sqrt(2)), n whole.
  static Vec SplitLog(Vec x, Vec& n) {
    return Make([&](int i) {
      const FourWhole subnormal = x.v[i] < All(0x1p-126f);  // -1 or 0
      const FourBits root = FourBits{} + 0x3f3504f3u;       // of 1/2
      const FourBits shifted = Bits(subnormal ? x.v[i] * 0x1p23f : x.v[i]) - root;
      n.v[i] = __builtin_convertvector((FourWhole(shifted) >> 23) + (subnormal & -23), Four);
      return Floats((shifted & 0x007fffffu) + root);
    });
  }
  // `log`, but minus infinity of zero, NaN of what is below, infinity of infinity.
  static Vec LogOrLimit(Vec x, Vec log) {
    const Four infinity = All(std::bit_cast<float>(0x7f800000u));
    const Four none = All(std::bit_cast<float>(0x7fc00000u));
    return Make([&](int i) {
      const Four of_positive = x.v[i] == infinity ? infinity : log.v[i];
      const Four of_others = x.v[i] == Four{} ? -infinity : none;
      return x.v[i] > Four{} ? of_positive : of_others;
    });
  }

 private:
  static constexpr uint32_t kUpper = 0xffff0000u;

  // f(0), f(1), f(2), f(3): four floats each.
  template <class F>
  [[gnu::always_inline]] static inline Vec Make(F f) {
    return {{f(0), f(1), f(2), f(3)}};
  }
  template <class T>
  [[gnu::always_inline]] static inline T Read(const void* p) {
    T value;
    __builtin_memcpy(&value, p, sizeof(value));
    return value;
  }
  static Four All(float x) { return Four{x, x, x, x}; }
  static FourBits Bits(Four x) { return std::bit_cast<FourBits>(x); }
  static Four Floats(FourBits x) { return std::bit_cast<Four>(x); }
  static Four Power(FourWhole n) { return std::bit_cast<Four>((n + 127) << 23); }
};

}  // namespace
}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_VEC_PORTABLE_H_
