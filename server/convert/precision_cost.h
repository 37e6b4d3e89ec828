// What a model's precision costs: its answers beside those of the same model in FP32, on this machine, to sequences made up or
// given.
//
// Plain functions; one thread; the model twice in memory, and seconds.
#ifndef CELLBATCH_SERVER_CONVERT_PRECISION_COST_H_
#define CELLBATCH_SERVER_CONVERT_PRECISION_COST_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "cells/precision.h"

namespace cellbatch {

struct PrecisionCost {
  // Here, on a CPU: FP32 for TF32, and for FP32_SPLIT where it has no tile registers.
  Precision computed = Precision::kFp32;
  std::string sequences;      // which: "64 random sequences"
  int64_t steps = 0;          // of all of them
  double of_norm = 0.0;       // of the differences of all of OUTPUT, by that of FP32's
  double most = 0.0;          // the largest of them
  int64_t rows = 0;           // of OUTPUT
  int64_t other_largest = 0;  // of those: another element is the largest
};

// Of version `version` in the model's folder. `inputs`: a .safetensors file, each of its tensors a sequence, [T, D] of what X
// takes or [T] of words' numbers (integers, or floats that are whole); empty: 64 made up, of 1 to 32 steps, from a fixed seed. INVALID_ARGUMENT: a file or
// tensor that cannot be, by name. UNIMPLEMENTED: a model that reads neither X nor TOKENS alone.
absl::StatusOr<PrecisionCost> MeasurePrecisionCost(const std::string& folder,
                                                   const std::string& name, int64_t version,
                                                   const std::string& inputs);

// A line or two for a person.
std::string Describe(const PrecisionCost& cost);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CONVERT_PRECISION_COST_H_
