#include "cells/kernels/cpu/tail_assembler.h"

#include <bit>
#include <limits>

namespace cellbatch::kernels {
namespace {

// Comparisons, as _CMP_LT_OQ and so on.
enum Comparison : uint8_t { kEqual = 0x00, kLess = 0x11, kNotGreaterOrEqual = 0x19 };

constexpr int kRoundToNearestQuietly = 8;  // _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC
constexpr int kSelect =
    0xca;  // vpternlog: bits of the second where the first is 1, else of the third

constexpr uint32_t kSign = 0x80000000, kAllButSign = 0x7fffffff, kNan = 0x7fc00000;

}  // namespace

void TailAssembler::WriteNumbers() {
  align(64);
  for (auto& [bits, label] : numbers_) {
    L(label);
    dd(bits);
  }
}

Xbyak::Zmm TailAssembler::Hold(int i, float number) {
  const Xbyak::Zmm constant = Constant(i);
  if (std::bit_cast<uint32_t>(number) == 0) {
    vpxord(constant, constant, constant);
  } else {
    vbroadcastss(constant, One(number));
  }
  return constant;
}

void TailAssembler::Clamp(int x, float least, float most) {
  const Xbyak::Zmm from = Hold(0, least), to = Hold(1, most);
  EachRow([&](int r) { vmaxps(Register(x, r), from, Register(x, r)); });
  EachRow([&](int r) { vminps(Register(x, r), to, Register(x, r)); });
}

void TailAssembler::ReduceExp(int x, int n, int q) {
  EachRow([&](int r) { vmulps(Register(n, r), Register(x, r), Each(1.44269504088896341f)); });
  EachRow([&](int r) { vrndscaleps(Register(n, r), Register(n, r), kRoundToNearestQuietly); });
  for (const float part : {-0.693145751953125f, -1.42860682030941723212e-6f}) {
    EachRow([&](int r) { vfmadd231ps(Register(x, r), Register(n, r), Each(part)); });
  }
  EachRow([&](int r) { vbroadcastss(Register(q, r), One(0x1.6d9a84p-10f)); });
  for (const float c : {0x1.12290ep-7f, 0x1.555486p-5f, 0x1.5554aep-3f, 0.5f}) {
    EachRow([&](int r) { vfmadd213ps(Register(q, r), Register(x, r), Each(c)); });
  }
  // q r^2 + r, the square where q's turn has come.
  for (int r = 0; r < rows_; ++r) {
    const Xbyak::Zmm square = Constant(r % 2);
    vmulps(square, Register(x, r), Register(x, r));
    vfmadd213ps(Register(q, r), square, Register(x, r));
  }
}

void TailAssembler::Exp(int x, int n, int q) {
  Clamp(x, -105.0f, 89.0f);
  ReduceExp(x, n, q);
  EachRow([&](int r) { vaddps(Register(q, r), Register(q, r), Each(1.0f)); });
  EachRow([&](int r) { vscalefps(Register(x, r), Register(q, r), Register(n, r)); });
}

void TailAssembler::HalfExpOfMinus(int x, int n, int q) {
  const Xbyak::Zmm zero = Hold(2, 0.0f);
  EachRow([&](int r) { vsubps(Register(x, r), zero, Register(x, r)); });
  Clamp(x, -87.0f, 89.6f);
  ReduceExp(x, n, q);
  const Xbyak::Zmm half = Hold(2, 0.5f);
  EachRow([&](int r) { vfmadd213ps(Register(q, r), half, half); });
  EachRow([&](int r) { vscalefps(Register(q, r), Register(q, r), Register(n, r)); });
}

void TailAssembler::Sigmoid(int x, int n, int q) {
  HalfExpOfMinus(x, n, q);
  const Xbyak::Zmm half = Hold(2, 0.5f);
  EachRow([&](int r) { vaddps(Register(q, r), half, Register(q, r)); });
  EachRow([&](int r) { vdivps(Register(x, r), half, Register(q, r)); });
}

void TailAssembler::SplitTanh(int x, int n, int q, int y) {
  EachRow([&](int r) { vpandd(Register(y, r), Register(x, r), EachOf(kAllButSign)); });
  EachRow([&](int r) { vaddps(Register(y, r), Register(y, r), Register(y, r)); });
  const Xbyak::Zmm most = Hold(2, 20.0f);
  EachRow([&](int r) { vminps(Register(y, r), most, Register(y, r)); });
  ReduceExp(y, n, q);
  const Xbyak::Zmm one = Hold(2, 1.0f);
  EachRow([&](int r) { vscalefps(Register(n, r), one, Register(n, r)); });
  EachRow([&](int r) { vsubps(Register(y, r), Register(n, r), one); });
  EachRow([&](int r) { vfmadd213ps(Register(n, r), Register(q, r), Register(y, r)); });
  EachRow([&](int r) { vbroadcastss(Register(y, r), OneOf(kSign)); });
  EachRow([&](int r) { vpternlogd(Register(y, r), Register(x, r), Register(n, r), kSelect); });
}

void TailAssembler::Tanh(int x, int n, int q, int y) {
  SplitTanh(x, n, q, y);
  EachRow([&](int r) { vaddps(Register(n, r), Register(n, r), Each(2.0f)); });
  EachRow([&](int r) { vdivps(Register(x, r), Register(y, r), Register(n, r)); });
}

void TailAssembler::SigmoidTimesTanh(int x, int y, Spare spare) {
  SplitTanh(y, spare.n, spare.q, spare.z);
  const Xbyak::Zmm two = Hold(2, 2.0f);
  EachRow([&](int r) { vfmadd213ps(Register(spare.n, r), two, Each(4.0f)); });
  HalfExpOfMinus(x, y, spare.q);
  const Xbyak::Zmm half = Hold(2, 0.5f);
  EachRow([&](int r) { vaddps(Register(spare.q, r), half, Register(spare.q, r)); });
  EachRow([&](int r) { vmulps(Register(spare.q, r), Register(spare.q, r), Register(spare.n, r)); });
  EachRow([&](int r) { vdivps(Register(x, r), Register(spare.z, r), Register(spare.q, r)); });
}

void TailAssembler::Relu(int x) {
  const Xbyak::Zmm zero = Hold(2, 0.0f);
  EachRow([&](int r) { vmaxps(Register(x, r), zero, Register(x, r)); });
}

void TailAssembler::Log(int x, int n, int q) {
  constexpr uint32_t kRootOfHalf = 0x3f3504f3;
  const auto f = [&](int r) { return Constant(r % 2); };
  const Xbyak::Zmm t = Constant(2);
  // One row after the other: nearly all cells that take logarithms take few.
  EachRow([&](int r) {
    const Xbyak::Zmm value = Register(x, r), exponent = Register(n, r), sum = Register(q, r);
    vmovaps(f(r), value);
    vcmpps(k1, value, Each(0x1p-126f), kLess);
    vmulps(f(r) | k1, f(r), Each(0x1p23f));
    vpsubd(f(r), f(r), EachOf(kRootOfHalf));
    vpsrad(exponent, f(r), 23);
    vpsubd(exponent | k1, exponent, EachOf(23));
    vcvtdq2ps(exponent, exponent);
    vpandd(f(r), f(r), EachOf(0x007fffff));
    vpaddd(f(r), f(r), EachOf(kRootOfHalf));
    vsubps(f(r), f(r), Each(1.0f));
    vbroadcastss(sum, One(0.06915433f));
    for (const float c : {-0.11789837f, 0.11872962f, -0.12384343f, 0.1421866f, -0.16669251f,
                          0.20002227f, -0.24999987f, 0.3333331f}) {
      vmulps(sum, sum, f(r));
      vaddps(sum, sum, Each(c));
    }
    for (int i = 0; i < 3; ++i) vmulps(sum, sum, f(r));
    vmulps(t, exponent, Each(1.42860682030941723212e-6f));
    vaddps(sum, sum, t);
    vmulps(t, f(r), Each(0.5f));
    vmulps(t, t, f(r));
    vsubps(sum, sum, t);
    vaddps(sum, f(r), sum);
    vmulps(exponent, exponent, Each(0.693145751953125f));
    vaddps(sum, exponent, sum);
  });
  LogOrLimit(x, q);
}

// x = log, but minus infinity of zero, NaN of what is below, infinity of infinity.
void TailAssembler::LogOrLimit(int x, int log) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Xbyak::Zmm zero = Hold(2, 0.0f);
  EachRow([&](int r) {
    const Xbyak::Zmm value = Register(x, r), limited = Register(log, r);
    vcmpps(k1, value, Each(kInfinity), kEqual);
    vcmpps(k2, value, zero, kEqual);
    vcmpps(k3, value, zero, kNotGreaterOrEqual);
    vbroadcastss(limited | k1, One(kInfinity));
    vbroadcastss(limited | k2, One(-kInfinity));
    vbroadcastss(limited | k3, OneOf(kNan));
    vmovaps(value, limited);
  });
}

}  // namespace cellbatch::kernels
