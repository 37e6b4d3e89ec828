// The part of kernel_check.h about kernels without weights: sums, broadcasts, argmax, products of values, copies.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "cells/kernels/cpu/kernel_check.h"
#include "cells/kernels/cpu/random_product.h"

namespace cellbatch::kernels {
namespace {

std::string CheckSums(const CpuKernels& kernels, Random& random) {
  const std::vector<int32_t> offsets = {0, 0, 1, 4, 4, 9};
  for (const int width : {1, 16, 37, 64}) {
    RandomRows in(random, width, 12, 9), out(random, width, 9, 5);
    in.data[in.rows[0] * in.stride] = -0.0f;  // one row alone is itself, its sign too
    kernels.sum_rows(in.source(), offsets.data(), width, 5, out.column());
    if (!out.OthersUntouched()) return "sums wrote beside their rows";
    for (int r = 0; r < 5; ++r) {
      std::vector<float> sum(static_cast<size_t>(width), 0.0f);
      for (int i = offsets[r]; i < offsets[r + 1]; ++i) {
        for (int u = 0; u < width; ++u) {
          sum[u] = i == offsets[r] ? in.Row(i)[u] : sum[u] + in.Row(i)[u];
        }
      }
      if (std::memcmp(sum.data(), out.Row(r), sizeof(float) * sum.size()) != 0) {
        return "sum " + std::to_string(r) + " of width " + std::to_string(width);
      }
    }
  }
  return "";
}

// Sixteen chains of doubles; of 256 elements the sixteen of each are added as floats, two and two, of 64 the four.
double SumByTheBook(const std::vector<float>& x) {
  double s[16] = {};
  size_t i = 0;
  for (const size_t block : {256, 64, 16}) {
    for (; i + block <= x.size(); i += block) {
      std::vector<float> sums(x.begin() + i, x.begin() + i + block);
      for (size_t apart = 16; apart < block; apart *= 2) {
        for (size_t k = 0; k < block; ++k) {
          if (k / apart % 2 == 0) sums[k] += sums[k + apart];
        }
      }
      for (size_t l = 0; l < 16; ++l) s[l] += double{sums[l]};
    }
  }
  for (size_t l = 0; i < x.size(); ++i, ++l) s[l] += double{x[i]};
  for (size_t l = 0; l < 8; ++l) s[l] += s[l + 8];
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

// Widths with and without whole 256, 64, 16, and a rest; the sums by the book, bit by bit.
std::string CheckElementSums(const CpuKernels& kernels, Random& random) {
  for (const int width : {1, 7, 8, 15, 16, 48, 64, 131, 256, 859}) {
    for (const double divisor : {1.0, static_cast<double>(width)}) {
      const RandomRows in(random, width, 12, 7);
      RandomRows out(random, 1, 9, 7);
      kernels.sum_elements(in.source(), width, divisor, 7, out.column());
      if (!out.OthersUntouched()) return "sums of elements wrote beside their rows";
      for (int r = 0; r < 7; ++r) {
        const double sum = SumByTheBook({in.Row(r), in.Row(r) + width});
        if (*out.Row(r) == static_cast<float>(sum / divisor)) continue;
        return "sum of the " + std::to_string(width) + " elements of row " + std::to_string(r);
      }
    }
  }
  return "";
}

// Likewise, each operation a float's.
std::string CheckSquareSums(const CpuKernels& kernels, Random& random) {
  for (const int width : {1, 7, 8, 15, 16, 48, 64, 131, 256, 859}) {
    for (const bool above_zero : {true, false}) {
      const RandomRows in(random, width, 12, 7), less(random, 1, 9, 7);
      RandomRows out(random, 1, 9, 7);
      kernels.sum_squares(in.source(), above_zero ? RowSource() : less.source(), width, width, 7,
                          out.column());
      if (!out.OthersUntouched()) return "sums of squares wrote beside their rows";
      for (int r = 0; r < 7; ++r) {
        std::vector<float> squares(in.Row(r), in.Row(r) + width);
        for (float& x : squares) x -= above_zero ? 0.0f : *less.Row(r);
        for (float& x : squares) x *= x;
        const double sum = SumByTheBook(squares);
        if (*out.Row(r) == static_cast<float>(sum / width)) continue;
        return "sum of " + std::to_string(width) + " squares of row " + std::to_string(r);
      }
    }
  }
  return "";
}

std::string CheckBroadcasts(const CpuKernels& kernels, Random& random) {
  for (const int width : {1, 15, 16, 37, 64}) {
    const RandomRows in(random, 1, 9, 5);
    RandomRows out(random, width, 9, 5);
    kernels.broadcast(in.source(), width, 5, out.column());
    if (!out.OthersUntouched()) return "broadcasts wrote beside their rows";
    for (int r = 0; r < 5; ++r) {
      for (int u = 0; u < width; ++u) {
        if (out.Row(r)[u] != *in.Row(r)) return "broadcast to " + std::to_string(width);
      }
    }
  }
  return "";
}

// Ties, NaN, rows of nothing but NaN or minus infinity.
std::string CheckArgMax(const CpuKernels& kernels, Random& random) {
  const float inf = std::numeric_limits<float>::infinity();
  const float odd[] = {std::numeric_limits<float>::quiet_NaN(), -inf, 1.0f, 2.0f, 2.0f};
  for (const int width : {1, 2, 15, 16, 17, 64, 131}) {
    for (int kinds = 1; kinds <= 5; ++kinds) {
      RandomRows in(random, width, 9, 7);
      for (float& x : in.data) x = odd[RandomInt(random, 0, kinds - 1)];
      std::vector<int32_t> got(9, -7), order = {8, 1, 2, 3, 4, 5, 0};
      kernels.arg_max(in.source(), width, 7, {got.data(), 1, order.data()});
      for (int r = 0; r < 7; ++r) {
        int32_t best = -1;
        for (int32_t u = 0; u < width; ++u) {
          const float x = in.Row(r)[u];
          if (!std::isnan(x) && (best < 0 || x > in.Row(r)[best])) best = u;
        }
        if (got[order[r]] == std::max(best, 0)) continue;
        return "argmax of a row of " + std::to_string(width) + " is " +
               std::to_string(got[order[r]]) + " and not " + std::to_string(std::max(best, 0));
      }
      if (got[6] != -7 || got[7] != -7) return "argmax wrote beside its rows";
    }
  }
  return "";
}

std::string CheckMatMuls(const CpuKernels& kernels, Random& random) {
  for (int rows = 1; rows <= 9; ++rows) {
    for (const int cols : {1, 16, 47, 67, 131}) {
      const int depth = rows % 2 == 0 ? 70 : 141;
      const std::vector<float> x = RandomFloats(random, rows * (depth + 3));
      const std::vector<float> w = RandomFloats(random, cols * (depth + 5));
      std::vector<float> turned(static_cast<size_t>(depth) * (cols + 2));
      std::vector<double> expected;
      for (int k = 0; k < depth; ++k) {
        for (int n = 0; n < cols; ++n) turned[k * (cols + 2) + n] = w[n * (depth + 5) + k];
      }
      for (int m = 0; m < rows; ++m) {
        for (int n = 0; n < cols; ++n) {
          double sum = 0.0;
          for (int k = 0; k < depth; ++k)
            sum += double{x[m * (depth + 3) + k]} * w[n * (depth + 5) + k];
          expected.push_back(sum);
        }
      }
      std::vector<float> y(expected.size() + 1, 77.0f), z = y;
      kernels.mat_mul_by_rows(
          {x.data(), depth + 3, w.data(), depth + 5, rows, depth, cols, y.data()});
      kernels.mat_mul_by_columns(
          {x.data(), depth + 3, turned.data(), cols + 2, rows, depth, cols, z.data()});
      const std::string shape =
          std::to_string(rows) + " x " + std::to_string(depth) + " x " + std::to_string(cols);
      if (Excess(expected, y.data()) > 1.0 || y.back() != 77.0f) return "product by rows, " + shape;
      if (Excess(expected, z.data()) > 1.0 || z.back() != 77.0f)
        return "product by columns, " + shape;
    }
  }
  return "";
}

std::string CheckCopies(const CpuKernels& kernels, Random& random) {
  for (const bool looked_up : {false, true}) {
    RandomRows table(random, 21, 50, 50), out(random, 21, 9, 6);
    const std::vector<int32_t> token = {3, 3, 49, 0, 7, 11, 12, 13}, nodes = {5, 0, 2, 1, 7, 3};
    const RowSource in{table.data.data(), table.stride, nodes.data(),
                       looked_up ? token.data() : nullptr};
    kernels.copy_rows(in, 21, 6, out.column());
    for (int r = 0; r < 6; ++r) {
      const int row = looked_up ? token[nodes[r]] : nodes[r];
      const float* const from = table.data.data() + table.stride * row;
      if (std::memcmp(from, out.Row(r), 21 * sizeof(float)) != 0) {
        return std::string("copy ") + (looked_up ? "through tokens" : "by number");
      }
    }
    if (!out.OthersUntouched()) return "copies wrote beside their rows";
  }
  return "";
}

}  // namespace

std::string CheckRowKernels(const CpuKernels& kernels) {
  Random random(kCheckSeed);
  std::string wrong = CheckSums(kernels, random);
  if (wrong.empty()) wrong = CheckElementSums(kernels, random);
  if (wrong.empty()) wrong = CheckSquareSums(kernels, random);
  if (wrong.empty()) wrong = CheckBroadcasts(kernels, random);
  if (wrong.empty()) wrong = CheckArgMax(kernels, random);
  if (wrong.empty()) wrong = CheckMatMuls(kernels, random);
  if (wrong.empty()) wrong = CheckCopies(kernels, random);
  return wrong;
}

}  // namespace cellbatch::kernels
