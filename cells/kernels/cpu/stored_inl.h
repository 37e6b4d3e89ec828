// How a product's weights are stored (product.h) and become floats in registers: what the tiles know of a precision.
// Included only by the one file of each instruction set.
//
// Stored: what lies in memory; Number: what of it tiles count and load. kDepth: steps of k in one step of a tile, each of
// which meets a number of the row. Load<d>: 16 weights of the d-th of them. kPacked: elements of k in one number of the row.
// kSummedApart: terms of a segment are summed as they are stored, and scaled at its end. MultiplyAdd: what a step adds.
// Tiled: what adds up a segment by tile registers (tiled_inl.h), if that is how it is done.
//
// Bf16Stored and Bf16Pairs are two ways to multiply the same stored weights: element by element, and two at a time where
// the CPU can (Vec::MultiplyAddPairs: first the pair's first element, then its second, each as Fma would: the same bits).
// To the latter's tiles a pair is one number, so they are the tiles of floats, of half the depth, and block and prefetch as
// those do.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_STORED_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_STORED_INL_H_

#include <cstdint>

#include "cells/kernels/cpu/product_limits.h"

namespace cellbatch::kernels {
namespace {  // of each file that includes it

struct NotTiled {};

// However they are stored, element by element.
struct OneByOne {
  using Tiled = NotTiled;
  static constexpr int kPacked = 1;
  template <class V>
  static V MultiplyAdd(V x, V weights, V sum) {
    return V::Fma(x, weights, sum);
  }
};

struct Fp32Stored : OneByOne {
  using Stored = float;
  using Number = float;
  static constexpr int kDepth = 1;
  static constexpr bool kSummedApart = false;
  template <class V, int kStep>
  static V Load(const Number* p) {
    return V::Load(p);
  }
};

struct Bf16Stored : OneByOne {
  using Stored = uint16_t;
  using Number = uint16_t;
  static constexpr int kDepth = 2, kInstructionsToExpand = 1;
  static constexpr bool kSummedApart = false;
  template <class V, int kStep>
  static V Load(const Number* p) {
    return kStep == 0 ? V::LoadHighHalves(p) : V::LoadLowHalves(p);
  }
};

struct Bf16Pairs {
  using Tiled = NotTiled;
  using Stored = uint16_t;
  using Number = float;  // a word of two, which nobody computes with as a float
  static constexpr int kDepth = 1, kPacked = 2;
  static constexpr bool kSummedApart = false;
  template <class V>
  static V MultiplyAdd(V x, V weights, V sum) {
    return V::MultiplyAddPairs(x, weights, sum);
  }
  template <class V, int kStep>
  static V Load(const Number* p) {
    return V::Load(p);
  }
};

struct W8Stored : OneByOne {
  using Stored = int8_t;
  using Number = int8_t;
  static constexpr int kDepth = 1, kInstructionsToExpand = 2;
  static constexpr bool kSummedApart = true;
  template <class V, int kStep>
  static V Load(const Number* p) {
    return V::LoadInt8(p);
  }
};

// Numbers of one column in one step.
template <class S>
inline constexpr int kColumnStep = kLanes* S::kDepth;

// Whether a number is a float, or as large: two of bf16.
template <class S>
inline constexpr bool kStoredAsFloats = sizeof(typename S::Number) == sizeof(float);

// Cache lines that one step of so many columns takes, at least one.
template <class S>
constexpr int LinesOf(int columns) {
  return (columns * kColumnStep<S> * static_cast<int>(sizeof(typename S::Number)) + 63) / 64;
}

}  // namespace
}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_STORED_INL_H_
