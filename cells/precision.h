// In which numbers a model's products are computed. State, sums, what is looked up and every other operator are fp32 in
// each of them; operators on what nodes compute (products of values, reductions) are, too.
//
//   kFp32       weights and inputs as they are
//   kFp32Split  as kFp32, with sums within 2e-5 of the largest where kFp32's are within 1e-5. Where a device multiplies bf16
//               so fast that three products are faster than one in fp32 (tile registers), each number is the sum of two
//               of bf16, and the product of their smaller parts is left out. Elsewhere it is kFp32 (ProgramLimits::Computed)
//   kTf32       as kFp32, where a device has no products of tf32 that are faster (ProgramLimits::Computed). Where it has (GPUs'
//               tensor cores), weights and a product's inputs are rounded to tf32, fp32 of 11 bits instead of 24 (to nearest,
//               ties away from zero), products summed in fp32
//   kBf16       weights and a product's inputs rounded to bf16 (to nearest, ties to even), products summed in fp32
//   kW8         weights are int8 times a scale: one scale for each line of a weight matrix that one unit sums over, the
//               line's largest magnitude / 127; inputs as they are
//
// So what a model means is said by its weights alone, and neither by how its cells are compiled nor, but for what kFp32Split and
// kTf32 leave to a device, by who computes them.
// Products by what parameters alone make are such products; what makes it, at load, is computed in fp32. Plain value.
#ifndef CELLBATCH_CELLS_PRECISION_H_
#define CELLBATCH_CELLS_PRECISION_H_

#include <cstdint>

#include "cells/check.h"

namespace cellbatch {

enum class Precision : uint8_t { kFp32, kBf16, kW8, kFp32Split, kTf32 };

// "FP32", "BF16", "W8", "FP32_SPLIT", "TF32".
inline const char* Name(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return "FP32";
    case Precision::kBf16:
      return "BF16";
    case Precision::kW8:
      return "W8";
    case Precision::kFp32Split:
      return "FP32_SPLIT";
    case Precision::kTf32:
      return "TF32";
  }
  NoSuchEnumerator();
}

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_PRECISION_H_
