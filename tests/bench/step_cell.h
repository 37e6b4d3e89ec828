// The LSTM cell that the benchmark `step` measures, without a compiler: its gates as a tail, weights made from a seed in
// the layouts that we, libraries and the oneDNN primitive like, and the scattered rows of one batch. One thread.
#ifndef CELLBATCH_TESTS_BENCH_STEP_CELL_H_
#define CELLBATCH_TESTS_BENCH_STEP_CELL_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "cells/kernels/cpu/packed_memory.h"
#include "cells/kernels/cpu/product.h"
#include "cells/kernels/cpu/rows.h"

namespace cellbatch {

// Tables of rows and the lists of one batch: x, then h and c of this step and of the next, all scattered. x is random,
// states start from zeros; the same seed makes the same rows, in the device's tables too.
class StepRows {
 public:
  StepRows(int h, int b, uint64_t seed);

  int b() const { return b_; }
  int h() const { return h_; }
  kernels::RowSource x() const { return {x_.data(), stride_, input_.data()}; }
  kernels::RowSource hidden() const { return {hidden_.data(), stride_, now_.data()}; }
  kernels::RowSource cell_values() const { return {cell_.data(), stride_, now_.data()}; }
  kernels::RowColumn cell() { return {cell_.data(), stride_, now_.data()}; }
  kernels::RowColumn next_cell() { return {cell_.data(), stride_, next_.data()}; }
  kernels::RowColumn next_hidden() { return {hidden_.data(), stride_, next_.data()}; }
  void Advance() { std::swap(now_, next_); }

  const std::vector<int32_t>& input_slots() const { return input_; }
  const std::vector<int32_t>& now_slots() const { return now_; }
  const std::vector<int32_t>& next_slots() const { return next_; }
  const float* Hidden(int r) const { return hidden_.data() + stride_ * now_[r]; }
  const float* X(int r) const { return x_.data() + stride_ * input_[r]; }

 private:
  int h_, b_;
  int64_t stride_, slots_;
  kernels::PackedMemory x_, hidden_, cell_;
  std::vector<int32_t> now_, next_, input_;
};

// Weights as PyTorch has them, [4h][h] twice, gates i f g o; no biases.
struct StepWeights {
  StepWeights(int h, uint64_t seed);

  // [2h][4h], columns in the order of accumulator rows, so that our gates can run on a library's product.
  kernels::PackedMemory ForProducts() const;
  // [h][4][h] of one of the two: input, gate, output.
  std::vector<float> ByInput(const std::vector<float>& weights) const;
  // The cell's product with its gates; without terms the gates alone, for sums that others made.
  kernels::ProductSpec Spec(bool with_terms) const;

  int h;
  std::vector<float> input, recurrent;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_STEP_CELL_H_
