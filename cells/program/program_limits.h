// What one step can hold on the device that will run a program: registers, and scratch of a fixed size. Each device
// states its own (cells/device/cpu/cpu_limits.h); the compiler cuts in two what does not fit.
#ifndef CELLBATCH_CELLS_PROGRAM_PROGRAM_LIMITS_H_
#define CELLBATCH_CELLS_PROGRAM_PROGRAM_LIMITS_H_

#include "cells/precision.h"

namespace cellbatch {

struct ProgramLimits {
  int groups = 0;                   // accumulators of one product
  int segments = 0;                 // inputs of one product
  int tail_ops = 0;                 // operations of one tail, stores included
  int tail_columns = 0;             // what one tail loads and stores
  bool arg_max_of_product = false;  // a product may end in the argmax of its only column
  bool scalars = false;       // tails may read one number for all units; squares may be summed
  int scratch_alignment = 1;  // values in scratch begin at multiples of so many elements
  // Segments that follow each other become one only where the first is as deep as a multiple of this; and in bf16. Above 1
  // where sums depend on where K is cut: then bits depend on no plan.
  int joined_depth = 1;
  int bf16_joined_depth = 1;
  bool splits = false;  // products of kFp32Split are made of three in bf16
  bool tf32 = false;    // products of kTf32 are made in tf32

  // What products of a model in that precision are computed in.
  Precision Computed(Precision precision) const {
    const bool as_fp32 =
        (precision == Precision::kFp32Split && !splits) || (precision == Precision::kTf32 && !tf32);
    return as_fp32 ? Precision::kFp32 : precision;
  }
  // Of one computed in that precision.
  ProgramLimits In(Precision computed) const {
    ProgramLimits limits = *this;
    const bool of_bf16 = computed == Precision::kBf16 || computed == Precision::kFp32Split;
    if (of_bf16) limits.joined_depth = bf16_joined_depth;
    return limits;
  }
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_PROGRAM_PROGRAM_LIMITS_H_
