#include "cells/device/cpu/plain_step.h"

#include <algorithm>
#include <cmath>

namespace cellbatch {
namespace {

void Broadcast(const float* x, const PlainStep& step, float* y) {
  std::fill(y, y + step.shape.size(), x[0]);
}

void Transpose(const float* x, const PlainStep& step, float* y) {
  const int64_t rows = step.shape.rows, cols = step.shape.cols;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) y[r * cols + c] = x[c * rows + r];
  }
}

void Slice(const float* x, const PlainStep& step, float* y) {
  const int64_t from_cols = step.shapes[0].cols, cols = step.shape.cols;
  for (int64_t r = 0; r < step.shape.rows; ++r) {
    std::copy_n(x + r * from_cols + step.begin, cols, y + r * cols);
  }
}

// Eight chains, so that one addition need not wait for the other; which is whose depends on n alone.
double SumOf(const float* x, int64_t n) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int64_t s = 0; s < 8; ++s) sums[s] += static_cast<double>(x[i + s]);
  }
  for (; i < n; ++i) sums[i % 8] += static_cast<double>(x[i]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

void Sum(const float* x, const PlainStep& step, float* y) {
  const int64_t n = step.shapes[0].size();
  double sum = SumOf(x, n);
  if (step.kind == PlainKind::kMean) sum /= static_cast<double>(n);
  y[0] = static_cast<float>(sum);
}

void Softmax(const float* x, const PlainStep& step, float* y) {
  const int64_t n = step.shape.size();
  const float most = *std::max_element(x, x + n);
  double sum = 0.0;
  for (int64_t i = 0; i < n; ++i) {
    y[i] = std::exp(x[i] - most);
    sum += static_cast<double>(y[i]);
  }
  const auto scale = static_cast<float>(1.0 / sum);
  for (int64_t i = 0; i < n; ++i) y[i] *= scale;
}

bool IsMatMul(PlainKind kind) {
  return kind == PlainKind::kMatMulByRows || kind == PlainKind::kMatMulByColumns;
}

void RunRow(const PlainStep& step, const kernels::RowSource* args, int32_t r, float* y) {
  const float* const x = args[0].Row(r);
  switch (step.kind) {
    case PlainKind::kBroadcast:
      return Broadcast(x, step, y);
    case PlainKind::kTranspose:
      return Transpose(x, step, y);
    case PlainKind::kSlice:
      return Slice(x, step, y);
    case PlainKind::kSoftmax:
      return Softmax(x, step, y);
    default:
      return Sum(x, step, y);
  }
}

}  // namespace

void RunPlainStep(const PlainStep& step, const kernels::CpuKernels& kernels,
                  const kernels::RowSource* args, int32_t num_rows, const kernels::RowColumn& out) {
  if (step.kind == PlainKind::kCopy) {
    kernels.copy_rows(args[0], static_cast<int32_t>(step.shape.size()), num_rows, out);
  } else if (step.kind == PlainKind::kArgMax) {
    const kernels::Int32Column to = {reinterpret_cast<int32_t*>(out.base), out.stride, out.rows};
    kernels.arg_max(args[0], static_cast<int32_t>(step.shapes[0].size()), num_rows, to);
  } else if (IsMatMul(step.kind)) {
    const auto run = step.kind == PlainKind::kMatMulByRows ? kernels.mat_mul_by_rows
                                                           : kernels.mat_mul_by_columns;
    for (int32_t r = 0; r < num_rows; ++r) {
      run({args[0].Row(r), step.strides[0], args[1].Row(r), step.strides[1], step.shape.rows,
           step.shapes[0].cols, step.shape.cols, out.Row(r)});
    }
  } else {
    for (int32_t r = 0; r < num_rows; ++r) RunRow(step, args, r, out.Row(r));
  }
}

int64_t PlainStepCost(const PlainStep& step) {
  int64_t cost = step.shape.size();
  if (IsMatMul(step.kind)) return cost * step.shapes[0].cols;  // some 50 multiply-adds a nanosecond
  for (const Shape& s : step.shapes) cost += s.size();
  return step.kind == PlainKind::kSoftmax ? 50 * cost : 4 * cost;
}

}  // namespace cellbatch
