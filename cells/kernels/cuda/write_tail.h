// What products have in common as source, whatever multiplies: biases, where sums begin, the tail operation by operation. Load
// time, one thread.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_WRITE_TAIL_H_
#define CELLBATCH_CELLS_KERNELS_CUDA_WRITE_TAIL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "cells/kernels/cuda/step_writer.h"

namespace cellbatch {

float ElementOf(const ParameterView& view, const float* data, int64_t unit, int64_t k);
// Those that read it, ascending.
std::vector<int> GroupsOf(const SegmentPlan& segment);

// What each unit has of its own: the biases of the groups, then the tail's parameters, as many floats each as there are units.
std::vector<float> UnitArrays(const ProductStep& step, const StepWriter& writer);
// Where a group's sums begin, an array by unit; `arrays`: the number of UnitArrays among the step's values. May say `node`.
std::string StartOf(const ProductStep& step, int group, int arrays, StepWriter& writer);

// What stands for a group's sum, and for what is read of a column of the tail.
struct TailNames {
  absl::FunctionRef<std::string(int group)> sum;
  absl::FunctionRef<std::string(int column)> read;
  bool near = false;  // sigmoids and tanhs within some 1e-6, for who is not more exact himself
};
// Statements that compute and store what the tail says, of one `unit` of one `node`.
std::string TailText(const ProductStep& step, int arrays, const TailNames& names,
                     StepWriter& writer);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_WRITE_TAIL_H_
