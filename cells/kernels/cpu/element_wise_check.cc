#include <cmath>
#include <string>
#include <vector>

#include "cells/kernels/cpu/kernel_check.h"
#include "cells/kernels/cpu/random_product.h"

namespace cellbatch::kernels {
namespace {

constexpr int kFirst = static_cast<int>(TailOpKind::kAdd);
constexpr int kOperators = static_cast<int>(TailOpKind::kLog) - kFirst + 1;

std::string CheckOperator(const CpuKernels& kernels, Random& random, TailOpKind op, int trial) {
  const std::string name = "element-wise " + std::to_string(static_cast<int>(op));
  const int rows = RandomInt(random, 1, 5), width = RandomInt(random, 1, 70);
  const int a_stride = trial % 3 == 0 ? 0 : width + RandomInt(random, 0, 3);
  const bool one = trial % 4 == 0;
  const int b_stride = one ? 0 : width, out_stride = width + RandomInt(random, 0, 3);
  std::vector<float> a = RandomFloats(random, rows * a_stride + width);
  const std::vector<float> b = RandomFloats(random, rows * width);
  for (float& x : a) x = op == TailOpKind::kLog ? std::abs(x) + 0.1f : x;
  std::vector<float> out(static_cast<size_t>(rows) * out_stride, 77.0f);
  kernels.element_wise(
      {op, {a.data(), a_stride}, {b.data(), b_stride, one}, out.data(), out_stride, rows, width});
  for (int at = 0; at < rows * out_stride; ++at) {
    const int r = at / out_stride, u = at % out_stride;
    if (u >= width && out[at] == 77.0f) continue;
    if (u >= width) return name + " wrote between its rows";
    const float *const x = &a[r * a_stride + u], *const y = &b[one ? 0 : r * b_stride + u];
    float alone = 0.0f;
    kernels.element_wise({op, {x, 0}, {y, 0}, &alone, 0, 1, 1});
    if (alone != out[at]) return name + ": an element depends on where it lies";
    if (Excess({Compute({.kind = op}, *x, *y)}, &alone) > 1.0) return name + " is another";
  }
  return "";
}

}  // namespace

std::string CheckElementWise(const CpuKernels& kernels) {
  Random random(kCheckSeed);
  std::string wrong;
  for (int i = 0; i < 12 * kOperators && wrong.empty(); ++i) {
    wrong = CheckOperator(kernels, random, static_cast<TailOpKind>(kFirst + i % kOperators),
                          i / kOperators);
  }
  return wrong;
}

}  // namespace cellbatch::kernels
