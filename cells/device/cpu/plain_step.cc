#include "cells/device/cpu/plain_step.h"

#include <algorithm>
#include <cmath>

#include "cells/check.h"

namespace cellbatch {
namespace {

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
      return kernels.broadcast(args[0], static_cast<int32_t>(step.shape.size()), num_rows, out);
    case PlainKind::kMatMulByRows:
      return MatMulEachRow(kernels.mat_mul_by_rows, step, args, num_rows, out);
    case PlainKind::kMatMulByColumns:
      return MatMulEachRow(kernels.mat_mul_by_columns, step, args, num_rows, out);
    case PlainKind::kTranspose:
      return EachRow(Transpose, step, args, num_rows, out);
    case PlainKind::kSlice:
      return EachRow(Slice, step, args, num_rows, out);
    case PlainKind::kSum:
    case PlainKind::kMean: {
      const auto n = static_cast<int32_t>(step.shapes[0].size());
      const double divisor = step.kind == PlainKind::kMean ? n : 1;
      return kernels.sum_elements(args[0], n, divisor, num_rows, out);
    }
    case PlainKind::kSumSquares:
    case PlainKind::kMeanSquares: {
      const auto n = static_cast<int32_t>(step.shapes[0].size());
      const double divisor = step.kind == PlainKind::kMeanSquares ? n : 1;
      const kernels::RowSource less = step.args.size() > 1 ? args[1] : kernels::RowSource();
      return kernels.sum_squares(args[0], less, n, divisor, num_rows, out);
    }
    case PlainKind::kSoftmax:
      return EachRow(Softmax, step, args, num_rows, out);
    case PlainKind::kArgMax: {
      const kernels::Int32Column to = {reinterpret_cast<int32_t*>(out.base), out.stride, out.rows};
      return kernels.arg_max(args[0], static_cast<int32_t>(step.shapes[0].size()), num_rows, to);
    }
  }
  NoSuchEnumerator();
}

}  // namespace cellbatch
