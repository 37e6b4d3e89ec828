#include "cells/kernels/cpu/tail_assembler.h"

#include <bit>
#include <limits>

namespace cellbatch::kernels {
namespace {

constexpr uint32_t kAllButSign = 0x7fffffff, kNan = 0x7fc00000;

}  // namespace

// AVX-512 spreads a number over a register while it is read; AVX2 reads what is there.
void TailAssembler::WriteNumbers() {
  align(kBlockBytes);
  const int copies = is_avx512_ ? 1 : register_bytes() / static_cast<int>(sizeof(float));
  for (auto& [bits, label] : numbers_) {
    L(label);
    for (int i = 0; i < copies; ++i) dd(bits);
  }
}

TailAssembler::Vector TailAssembler::Hold(int i, float number) {
  const Vector constant = Constant(i);
  if (std::bit_cast<uint32_t>(number) == 0) {
    Zero(constant);
  } else {
    vbroadcastss(constant, One(number));
  }
  return constant;
}

void TailAssembler::Clamp(int x, float least, float most) {
  const Vector from = Hold(0, least), to = Hold(1, most);
  EachOfGroup([&](int i) { vmaxps(Register(x, i), from, Register(x, i)); });
  EachOfGroup([&](int i) { vminps(Register(x, i), to, Register(x, i)); });
}

void TailAssembler::ReduceExp(int x, int n, int q) {
  EachOfGroup([&](int i) { vmulps(Register(n, i), Register(x, i), Each(1.44269504088896341f)); });
  RoundToInt(n);
  for (const float part : {-0.693145751953125f, -1.42860682030941723212e-6f}) {
    EachOfGroup([&](int i) { vfmadd231ps(Register(x, i), Register(n, i), Each(part)); });
  }
  EachOfGroup([&](int i) { vbroadcastss(Register(q, i), One(0x1.6d9a84p-10f)); });
  for (const float c : {0x1.12290ep-7f, 0x1.555486p-5f, 0x1.5554aep-3f, 0.5f}) {
    EachOfGroup([&](int i) { vfmadd213ps(Register(q, i), Register(x, i), Each(c)); });
  }
  // q r^2 + r, the square where q's turn has come.
  EachOfGroup([&](int i) {
    const Vector square = Constant(i % 2);
    vmulps(square, Register(x, i), Register(x, i));
    vfmadd213ps(Register(q, i), square, Register(x, i));
  });
}

void TailAssembler::Exp(int x, int n, int q) {
  Clamp(x, -105.0f, 89.0f);
  ReduceExp(x, n, q);
  EachOfGroup([&](int i) { vaddps(Register(x, i), Register(q, i), Each(1.0f)); });
  Scale(x, n);
}

void TailAssembler::HalfExpOfMinus(int x, int n, int q) {
  const Vector zero = Hold(0, 0.0f);
  EachOfGroup([&](int i) { vsubps(Register(x, i), zero, Register(x, i)); });
  Clamp(x, -87.0f, 89.6f);
  ReduceExp(x, n, q);
  HalfPower(q, n);
}

void TailAssembler::Sigmoid(int x, int n, int q) {
  HalfExpOfMinus(x, n, q);
  const Vector half = Hold(0, 0.5f);
  EachOfGroup([&](int i) { vaddps(Register(q, i), half, Register(q, i)); });
  EachOfGroup([&](int i) { vdivps(Register(x, i), half, Register(q, i)); });
}

void TailAssembler::SplitTanh(int x, int n, int q, int y) {
  EachOfGroup([&](int i) { And(Register(y, i), Register(x, i), kAllButSign); });
  EachOfGroup([&](int i) { vaddps(Register(y, i), Register(y, i), Register(y, i)); });
  const Vector most = Hold(0, 20.0f);
  EachOfGroup([&](int i) { vminps(Register(y, i), most, Register(y, i)); });
  ReduceExp(y, n, q);
  PowerOf2(n);
  EachOfGroup([&](int i) { vsubps(Register(y, i), Register(n, i), Each(1.0f)); });
  EachOfGroup([&](int i) { vfmadd213ps(Register(n, i), Register(q, i), Register(y, i)); });
  CopySign(y, n, x);
}

void TailAssembler::Tanh(int x, int n, int q, int y) {
  SplitTanh(x, n, q, y);
  EachOfGroup([&](int i) { vaddps(Register(n, i), Register(n, i), Each(2.0f)); });
  EachOfGroup([&](int i) { vdivps(Register(x, i), Register(y, i), Register(n, i)); });
}

void TailAssembler::SigmoidTimesTanh(int x, int y, Spare spare) {
  const auto [n, q, z] = spare;
  SplitTanh(y, n, q, z);
  const Vector two = Hold(0, 2.0f);
  EachOfGroup([&, n = n](int i) { vfmadd213ps(Register(n, i), two, Each(4.0f)); });
  HalfExpOfMinus(x, y, q);
  const Vector half = Hold(0, 0.5f);
  for (int i = 0; i < abreast(); ++i) vaddps(Register(q, i), half, Register(q, i));
  for (int i = 0; i < abreast(); ++i) vmulps(Register(q, i), Register(q, i), Register(n, i));
  for (int i = 0; i < abreast(); ++i) vdivps(Register(x, i), Register(z, i), Register(q, i));
}

void TailAssembler::Relu(int x) {
  const Vector zero = Hold(0, 0.0f);
  EachOfGroup([&](int i) { vmaxps(Register(x, i), zero, Register(x, i)); });
}

// One register after the other: nearly all cells that take logarithms take few.
void TailAssembler::Log(int x, int n, int q) {
  const Vector t = Constant(1);
  EachOfGroup([&](int i) {
    const Vector f = Constant(is_avx512_ ? 2 + i % 2 : 0);
    const Vector exponent = Register(n, i), sum = Register(q, i);
    SplitLog(Register(x, i), f, exponent, t);
    vsubps(f, f, Each(1.0f));
    vbroadcastss(sum, One(0.06915433f));
    for (const float c : {-0.11789837f, 0.11872962f, -0.12384343f, 0.1421866f, -0.16669251f,
                          0.20002227f, -0.24999987f, 0.3333331f}) {
      vmulps(sum, sum, f);
      vaddps(sum, sum, Each(c));
    }
    for (int j = 0; j < 3; ++j) vmulps(sum, sum, f);
    vmulps(t, exponent, Each(1.42860682030941723212e-6f));
    vaddps(sum, sum, t);
    vmulps(t, f, Each(0.5f));
    vmulps(t, t, f);
    vsubps(sum, sum, t);
    vaddps(sum, f, sum);
    vmulps(exponent, exponent, Each(0.693145751953125f));
    vaddps(sum, exponent, sum);
  });
  LogOrLimit(x, q);
}

// x = log, but minus infinity of zero, NaN of what is below, infinity of infinity.
void TailAssembler::LogOrLimit(int x, int log) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Vector with = Constant(0);
  EachOfGroup([&](int i) {
    const Vector value = Register(x, i), limited = Register(log, i);
    LimitWhere(limited, value, kInfinity, kEqual, std::bit_cast<uint32_t>(kInfinity), with);
    LimitWhere(limited, value, 0.0f, kEqual, std::bit_cast<uint32_t>(-kInfinity), with);
    LimitWhere(limited, value, 0.0f, kNotGreaterOrEqual, kNan, with);
    vmovaps(value, limited);
  });
}

}  // namespace cellbatch::kernels
