#include "cells/device/cpu/plain_step.h"

#include <algorithm>
#include <cmath>

#include "cells/check.h"

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
  y[0] = static_cast<float>(SumOf(x, step.shapes[0].size()));
}

void Mean(const float* x, const PlainStep& step, float* y) {
  const int64_t n = step.shapes[0].size();
  y[0] = static_cast<float>(SumOf(x, n) / static_cast<double>(n));
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

// What a step does with one row.
using RowFunction = void (*)(const float* x, const PlainStep& step, float* y);

void EachRow(RowFunction run, const PlainStep& step, const kernels::RowSource* args,
             int32_t num_rows, const kernels::RowColumn& out) {
  for (int32_t r = 0; r < num_rows; ++r) run(args[0].Row(r), step, out.Row(r));
}

void MatMulEachRow(void (*run)(const kernels::MatMulArgs&), const PlainStep& step,
                   const kernels::RowSource* args, int32_t num_rows,
                   const kernels::RowColumn& out) {
  for (int32_t r = 0; r < num_rows; ++r) {
    run({args[0].Row(r), step.strides[0], args[1].Row(r), step.strides[1], step.shape.rows,
         step.shapes[0].cols, step.shape.cols, out.Row(r)});
  }
}

}  // namespace

void RunPlainStep(const PlainStep& step, const kernels::CpuKernels& kernels,
                  const kernels::RowSource* args, int32_t num_rows, const kernels::RowColumn& out) {
  switch (step.kind) {
    case PlainKind::kCopy:
      return kernels.copy_rows(args[0], static_cast<int32_t>(step.shape.size()), num_rows, out);
    case PlainKind::kBroadcast:
      return EachRow(Broadcast, step, args, num_rows, out);
    case PlainKind::kMatMulByRows:
      return MatMulEachRow(kernels.mat_mul_by_rows, step, args, num_rows, out);
    case PlainKind::kMatMulByColumns:
      return MatMulEachRow(kernels.mat_mul_by_columns, step, args, num_rows, out);
    case PlainKind::kTranspose:
      return EachRow(Transpose, step, args, num_rows, out);
    case PlainKind::kSlice:
      return EachRow(Slice, step, args, num_rows, out);
    case PlainKind::kSum:
      return EachRow(Sum, step, args, num_rows, out);
    case PlainKind::kMean:
      return EachRow(Mean, step, args, num_rows, out);
    case PlainKind::kSoftmax:
      return EachRow(Softmax, step, args, num_rows, out);
    case PlainKind::kArgMax: {
      const kernels::Int32Column to = {reinterpret_cast<int32_t*>(out.base), out.stride, out.rows};
      return kernels.arg_max(args[0], static_cast<int32_t>(step.shapes[0].size()), num_rows, to);
    }
  }
  NoSuchEnumerator();
}

int64_t PlainStepCost(const PlainStep& step) {
  int64_t elements = step.shape.size();
  for (const Shape& s : step.shapes) elements += s.size();
  switch (step.kind) {
    case PlainKind::kMatMulByRows:
    case PlainKind::kMatMulByColumns:  // some 50 multiply-adds a nanosecond
      return step.shape.size() * step.shapes[0].cols;
    case PlainKind::kSoftmax:
      return 50 * elements;
    case PlainKind::kCopy:
    case PlainKind::kBroadcast:
    case PlainKind::kTranspose:
    case PlainKind::kSlice:
    case PlainKind::kSum:
    case PlainKind::kMean:
    case PlainKind::kArgMax:
      return 4 * elements;
  }
  NoSuchEnumerator();
}

}  // namespace cellbatch
