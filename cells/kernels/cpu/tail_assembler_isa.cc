// Where the instruction sets of tail_assembler.h differ: AVX-512 has instructions for what AVX2 does on exponents as whole numbers,
// and masks of its own.
#include "cells/kernels/cpu/tail_assembler.h"

namespace cellbatch::kernels {
namespace {

constexpr int kRoundToNearestQuietly = 8;  // _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC
constexpr int kSelect =
    0xca;  // vpternlog: bits of the second where the first is 1, else of the third
constexpr uint32_t kSign = 0x80000000, kAllButSign = 0x7fffffff;
constexpr uint32_t kRootOfHalf = 0x3f3504f3, kMantissa = 0x007fffff;
constexpr int kMantissaBits = 23;

}  // namespace

void TailAssembler::RoundToInt(int n) {
  EachOfGroup([&](int i) {
    if (is_avx512_) {
      vrndscaleps(Register(n, i), Register(n, i), kRoundToNearestQuietly);
    } else {
      vroundps(Register(n, i), Register(n, i), kRoundToNearestQuietly);
    }
  });
}

// AVX2: in two halves, because 2^n alone may not be a float where the product is.
void TailAssembler::Scale(int q, int n) {
  EachOfGroup([&](int i) {
    const Vector scaled = Register(q, i), rest = Register(n, i);
    if (is_avx512_) return vscalefps(scaled, scaled, rest);
    const Vector half = Constant(0), power = Constant(1);
    const auto scale_by = [&](const Vector& exponent) {
      vpaddd(power, exponent, EachOf(127));
      vpslld(power, power, kMantissaBits);
      vmulps(scaled, scaled, power);
    };
    vcvtps2dq(rest, rest);
    vpsrad(half, rest, 1);
    vpsubd(rest, rest, half);
    scale_by(half);
    scale_by(rest);
  });
}

void TailAssembler::HalfPower(int q, int n) {
  if (is_avx512_) {
    const Vector half = Hold(0, 0.5f);
    EachOfGroup([&](int i) { vfmadd213ps(Register(q, i), half, half); });
    EachOfGroup([&](int i) { vscalefps(Register(q, i), Register(q, i), Register(n, i)); });
    return;
  }
  EachOfGroup([&](int i) { vaddps(Register(n, i), Register(n, i), Each(0x1p23f + 126)); });
  EachOfGroup([&](int i) { vpslld(Register(n, i), Register(n, i), kMantissaBits); });
  EachOfGroup([&](int i) { vaddps(Register(q, i), Register(q, i), Each(1.0f)); });
  EachOfGroup([&](int i) { vmulps(Register(q, i), Register(q, i), Register(n, i)); });
}

void TailAssembler::PowerOf2(int n) {
  if (is_avx512_) {
    const Vector one = Hold(0, 1.0f);
    EachOfGroup([&](int i) { vscalefps(Register(n, i), one, Register(n, i)); });
    return;
  }
  EachOfGroup([&](int i) { vaddps(Register(n, i), Register(n, i), Each(0x1p23f + 127)); });
  EachOfGroup([&](int i) { vpslld(Register(n, i), Register(n, i), kMantissaBits); });
}

void TailAssembler::CopySign(int to, int magnitude, int sign) {
  EachOfGroup([&](int i) {
    const Vector signed_one = Register(to, i), without = Constant(i % 2);
    if (is_avx512_) {
      vbroadcastss(signed_one, OneOf(kSign));
      vpternlogd(signed_one, Register(sign, i), Register(magnitude, i), kSelect);
    } else {
      And(signed_one, Register(sign, i), kSign);
      And(without, Register(magnitude, i), kAllButSign);
      vorps(signed_one, signed_one, without);
    }
  });
}

void TailAssembler::And(const Vector& to, const Vector& a, uint32_t bits) {
  if (is_avx512_) {
    vpandd(to, a, EachOf(bits));
  } else {
    vandps(to, a, EachOf(bits));
  }
}

void TailAssembler::Zero(const Vector& to) {
  if (is_avx512_) {
    vpxord(to, to, to);
  } else {
    vxorps(to, to, to);
  }
}

// A subnormal is raised first, and its exponent lowered after.
void TailAssembler::SplitLog(Vector x, Vector f, Vector n, Vector t) {
  if (is_avx512_) {
    vmovaps(f, x);
    vcmpps(k1, x, Each(0x1p-126f), kLess);
    vmulps(f | k1, f, Each(0x1p23f));
  } else {
    vcmpps(t, x, Each(0x1p-126f), kLess);
    vmulps(f, x, Each(0x1p23f));
    vblendvps(f, x, f, t);
  }
  vpsubd(f, f, EachOf(kRootOfHalf));
  vpsrad(n, f, kMantissaBits);
  if (is_avx512_) {
    vpsubd(n | k1, n, EachOf(kMantissaBits));
  } else {
    And(t, t, kMantissaBits);
    vpsubd(n, n, t);
  }
  vcvtdq2ps(n, n);
  And(f, f, kMantissa);
  vpaddd(f, f, EachOf(kRootOfHalf));
}

void TailAssembler::LimitWhere(const Vector& log, const Vector& x, float other, uint8_t comparison,
                               uint32_t number, const Vector& with) {
  if (is_avx512_) {
    vcmpps(k1, x, Each(other), comparison);
    vbroadcastss(log | k1, OneOf(number));
  } else {
    vcmpps(with, x, Each(other), comparison);
    vblendvps(log, log, EachOf(number), with);
  }
}

}  // namespace cellbatch::kernels
