// Rows of columns, and what is done with a whole row by one block of threads: copies, sums, reductions. Every sum has one
// order: threads take every kRowThreads-th element, and their parts are added up as a tree.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_ROWS_CUH_
#define CELLBATCH_CELLS_KERNELS_CUDA_ROWS_CUH_

#include "cells/kernels/cuda/kernel_abi.h"
#include "cells/kernels/cuda/product_tile.h"

extern __shared__ float4 cellbatch_shared[];  // a launch's dynamic shared memory, of every kernel

namespace cellbatch::cuda_kernels {

__device__ __forceinline__ float* RowAt(const cuda_abi::ColumnView& column, int row) {
  return column.base + row * column.stride;
}

// Likewise, as bf16.
__device__ __forceinline__ unsigned short* RoundedRowAt(const cuda_abi::ColumnView& column, int row) {
  return column.rounded + row * column.stride;
}

// Of the first step of a launch's second task, or one behind it.
__device__ __forceinline__ void StampBegin(const cuda_abi::StepArgs& a) {
  if (a.begins_ns == nullptr || blockIdx.x + blockIdx.y + threadIdx.x != 0) return;
  *a.begins_ns = DeviceClockNs();
}

// To nearest, ties to even; of NaN a quiet one.
__device__ __forceinline__ unsigned short RoundedToBf16(float value) {
  const unsigned bits = static_cast<unsigned>(__float_as_int(value));
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<unsigned short>(bits >> 16 | 0x40u);
  return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// Behind what a block left in a row, by all its threads: the same as bf16.
__device__ inline void RoundRow(const float* row, int width, unsigned short* to) {
  __syncthreads();
  for (int i = threadIdx.x; i < width; i += blockDim.x) to[i] = RoundedToBf16(row[i]);
}

__device__ __forceinline__ float Sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// Within some 1e-6 of 1, which is nothing beside products in bf16, and in a quarter of the instructions.
__device__ __forceinline__ float NearSigmoid(float x) {
  return NearReciprocal(1.0f + NearPowerOf2(-1.4426950408889634f * x));
}
__device__ __forceinline__ float NearTanh(float x) {
  return fmaf(2.0f, NearSigmoid(2.0f * x), -1.0f);
}

// Minus infinity.
__device__ __forceinline__ float LeastFloat() {
  return __int_as_float(static_cast<int>(0xff800000u));
}

// scratch = the rows of one node, added in their order; none: zeros.
__device__ inline void SumRows(const cuda_abi::ColumnView& column, const cuda_abi::InputList& input,
                               int node, int width, float* to) {
  const int begin = input.offsets[node], end = input.offsets[node + 1];
  for (int u = threadIdx.x; u < width; u += blockDim.x) {
    float sum = 0.0f;
    for (int i = begin; i < end; ++i) sum += RowAt(column, input.rows[i])[u];
    to[u] = sum;
  }
}

__device__ __forceinline__ int Clamped(const float* token, int rows) {
  const int word = __float_as_int(*token);
  return word < 0 ? 0 : word < rows ? word : rows - 1;
}

// What all threads of a block have, as one: `combine` of two at a time. All get it.
template <typename T, typename Combine>
__device__ T OfBlock(T mine, const Combine& combine) {
  T* const parts = reinterpret_cast<T*>(cellbatch_shared);
  __syncthreads();
  parts[threadIdx.x] = mine;
  for (int half = kRowThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) {
      parts[threadIdx.x] = combine(parts[threadIdx.x], parts[threadIdx.x + half]);
    }
  }
  __syncthreads();
  return parts[0];
}

__device__ inline void SumElements(const float* x, int n, double divisor, float* y) {
  double mine = 0.0;
  for (int i = threadIdx.x; i < n; i += kRowThreads) mine += x[i];
  const double sum = OfBlock(mine, [](double a, double b) { return a + b; });
  if (threadIdx.x == 0) *y = static_cast<float>(sum / divisor);
}

__device__ inline void Softmax(const float* x, int n, float* y) {
  float most = LeastFloat();
  for (int i = threadIdx.x; i < n; i += kRowThreads) most = fmaxf(most, x[i]);
  most = OfBlock(most, [](float a, float b) { return fmaxf(a, b); });
  double mine = 0.0;
  for (int i = threadIdx.x; i < n; i += kRowThreads) mine += expf(x[i] - most);
  const double sum = OfBlock(mine, [](double a, double b) { return a + b; });
  const float scale = static_cast<float>(1.0 / sum);
  for (int i = threadIdx.x; i < n; i += kRowThreads) y[i] = expf(x[i] - most) * scale;
}

struct Largest {
  float value;
  int at;
};

// Of equals the lowest; NaN is never larger, and of nothing but NaN it is 0.
__device__ inline void ArgMax(const float* x, int n, float* y) {
  const auto larger = [](Largest a, Largest b) {
    return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a;
  };
  Largest mine = {LeastFloat(), n};
  for (int i = threadIdx.x; i < n; i += kRowThreads) mine = larger(mine, {x[i], i});
  const Largest all = OfBlock(mine, larger);
  if (threadIdx.x == 0) *y = __int_as_float(all.at < n ? all.at : 0);
}

// y[m][n] = sum over k of x[m * x_stride + k] * w[n * unit_stride + k * depth_stride].
__device__ inline void MatMul(const float* x, long long x_stride, const float* w,
                              long long unit_stride, long long depth_stride, int rows, int depth,
                              int cols, float* y) {
  for (int i = threadIdx.x; i < rows * cols; i += kRowThreads) {
    const float* const row = x + i / cols * x_stride;
    const float* const unit = w + i % cols * unit_stride;
    float sum = 0.0f;
    for (int k = 0; k < depth; ++k) sum = fmaf(row[k], unit[k * depth_stride], sum);
    y[i] = sum;
  }
}

}  // namespace cellbatch::cuda_kernels

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_ROWS_CUH_
