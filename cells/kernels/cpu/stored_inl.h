// How a product's weights are stored (product.h) and become floats in registers: what the tiles know of a precision.
// Included only by the one file of each instruction set.
//
// kDepth: steps of k that are stored together. Load<d>: 16 weights of the d-th of them. kSummedApart: terms of a segment
// are summed as they are stored, and scaled at its end. kNearest: cache lines of `columns` columns that are prefetched a
// step. Another way to multiply the same stored weights (dot products of pairs) is another tile over the same layout.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_STORED_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_STORED_INL_H_

#include <cstdint>

#include "cells/kernels/cpu/product_limits.h"

namespace cellbatch::kernels {
namespace {  // of each file that includes it

struct Fp32Stored {
  using Number = float;
  static constexpr int kDepth = 1;
  static constexpr bool kSummedApart = false;
  template <class V, int kStep>
  static V Load(const Number* p) {
    return V::Load(p);
  }
};

struct Bf16Stored {
  using Number = uint16_t;
  static constexpr int kDepth = 2;
  static constexpr bool kSummedApart = false;
  template <class V, int kStep>
  static V Load(const Number* p) {
    return kStep == 0 ? V::LoadLowHalves(p) : V::LoadHighHalves(p);
  }
};

struct W8Stored {
  using Number = int8_t;
  static constexpr int kDepth = 1;
  static constexpr bool kSummedApart = true;
  template <class V, int kStep>
  static V Load(const Number* p) {
    return V::LoadInt8(p);
  }
};

// Numbers of one column in one step.
template <class S>
inline constexpr int kColumnStep = kLanes* S::kDepth;

// Cache lines that one step of so many columns takes, at least one.
template <class S>
constexpr int LinesOf(int columns) {
  return (columns * kColumnStep<S> * static_cast<int>(sizeof(typename S::Number)) + 63) / 64;
}

}  // namespace
}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_STORED_INL_H_
