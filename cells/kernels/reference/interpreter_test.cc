#include "cells/kernels/reference/interpreter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

using testing::CellBuilder;
using testing::RandomWeights;

double Sigmoid(double v) { return 1.0 / (1.0 + std::exp(-v)); }

RowValues Widen(std::initializer_list<std::vector<float>> columns) {
  RowValues row;
  for (const std::vector<float>& c : columns) row.emplace_back(c.begin(), c.end());
  return row;
}

// y[n] = sum w[n][k] x[k], written once more so that the interpreter is not its own judge.
std::vector<double> Product(const Weight& w, const ColumnValues& x, int32_t first, int32_t count) {
  std::vector<double> y(static_cast<size_t>(count), 0.0);
  for (int32_t n = 0; n < count; ++n) {
    for (int32_t k = 0; k < w.shape.cols; ++k) {
      y[static_cast<size_t>(n)] +=
          static_cast<double>(w.data[(first + n) * w.shape.cols + k]) * x[static_cast<size_t>(k)];
    }
  }
  return y;
}

TEST(InterpreterTest, AnLstmComputesItsEquations) {
  constexpr int32_t kD = 3, kH = 4;
  const CellDefinition cell = testing::LstmCell(kD, kH);
  const Weights w = RandomWeights(cell, 5);
  const RowValues x = Widen({testing::RandomFloats(kD, 1)});
  const RowValues before = Widen({testing::RandomFloats(kH, 2), testing::RandomFloats(kH, 3)});
  const RowValues left = InterpretNode(cell, w, {x, before});
  ASSERT_EQ(left.size(), 2u);
  std::vector<double> gate[4];
  for (int g = 0; g < 4; ++g) {
    gate[g] = Product(w[0], x[0], g * kH, kH);
    const std::vector<double> rec = Product(w[1], before[0], g * kH, kH);
    for (size_t u = 0; u < kH; ++u) {
      gate[g][u] += rec[u] + w[2].data[g * kH + u] + w[3].data[g * kH + u];
    }
  }
  for (size_t u = 0; u < kH; ++u) {
    const double c =
        Sigmoid(gate[1][u]) * before[1][u] + Sigmoid(gate[0][u]) * std::tanh(gate[2][u]);
    EXPECT_NEAR(left[1][u], c, 1e-12);
    EXPECT_NEAR(left[0][u], Sigmoid(gate[3][u]) * std::tanh(c), 1e-12);
  }
}

TEST(InterpreterTest, WaysToWriteAnLstmAgree) {
  constexpr int32_t kD = 3, kH = 4;
  const CellDefinition stacked = testing::LstmCell(kD, kH),
                       by_gate = testing::LstmCellByGate(kD, kH);
  const Weights w = RandomWeights(stacked, 5);
  Weights apart;
  for (int g = 0; g < 4; ++g) {
    const auto part = [&](const Weight& from, int32_t cols) {
      std::shared_ptr<float[]> data(new float[static_cast<size_t>(kH * cols)]);
      std::copy_n(from.data.get() + g * kH * cols, kH * cols, data.get());
      return data;
    };
    const auto bias = part(w[2], 1), rec = part(w[3], 1);
    for (int u = 0; u < kH; ++u) bias[u] += rec[u];
    apart.push_back({part(w[0], kD), Shape::Matrix(kH, kD)});
    apart.push_back({part(w[1], kH), Shape::Matrix(kH, kH)});
    apart.push_back({bias, Shape::Vector(kH)});
  }
  const RowValues x = Widen({testing::RandomFloats(kD, 1)});
  const RowValues before = Widen({testing::RandomFloats(kH, 2), testing::RandomFloats(kH, 3)});
  const RowValues a = InterpretNode(stacked, w, {x, before}),
                  b = InterpretNode(by_gate, apart, {x, before});
  for (size_t u = 0; u < kH; ++u) {
    EXPECT_NEAR(a[0][u], b[0][u], 1e-6);  // the sum of two biases was rounded to float
    EXPECT_NEAR(a[1][u], b[1][u], 1e-6);
  }
}

TEST(InterpreterTest, TheTwoGrusDiffer) {
  const RowValues x = Widen({testing::RandomFloats(3, 1)}),
                  h = Widen({testing::RandomFloats(4, 2)});
  const CellDefinition after = testing::GruCell(3, 4), first = testing::GruV1Cell(3, 4);
  const Weights wa = RandomWeights(after, 1), wf = RandomWeights(first, 1);
  // Equations of the reset-first cell, by hand for unit 0.
  const std::vector<double> in = Product(wf[4], x[0], 0, 4), r_in = Product(wf[0], x[0], 0, 4);
  const std::vector<double> r_rec = Product(wf[6], h[0], 0, 4), z_in = Product(wf[2], x[0], 0, 4);
  const std::vector<double> z_rec = Product(wf[7], h[0], 0, 4);
  ColumnValues kept(4);
  for (size_t u = 0; u < 4; ++u) kept[u] = Sigmoid(r_in[u] + wf[1].data[u] + r_rec[u]) * h[0][u];
  const double n = std::tanh(in[0] + wf[5].data[0] + Product(wf[8], kept, 0, 4)[0]);
  const double z = Sigmoid(z_in[0] + wf[3].data[0] + z_rec[0]);
  EXPECT_NEAR(InterpretNode(first, wf, {x, h})[0][0], (1 - z) * n + z * h[0][0], 1e-12);
  // And of the other.
  const std::vector<double> a = Product(wa[0], x[0], 0, 12), b = Product(wa[1], h[0], 0, 12);
  const double r2 = Sigmoid(a[0] + b[0] + wa[2].data[0] + wa[3].data[0]);
  const double z2 = Sigmoid(a[4] + b[4] + wa[2].data[4] + wa[3].data[4]);
  const double n2 = std::tanh(a[8] + wa[2].data[8] + r2 * (b[8] + wa[3].data[8]));
  EXPECT_NEAR(InterpretNode(after, wa, {x, h})[0][0], (1 - z2) * n2 + z2 * h[0][0], 1e-12);
}

TEST(InterpreterTest, ALookupStaysInsideItsTable) {
  const CellDefinition cell = testing::EmbeddingCell(10, 3);
  const Weights w = RandomWeights(cell, 1);
  for (const auto& [token, row] : {std::pair{7, 7}, {-1, 0}, {10, 9}}) {
    const RowValues left = InterpretNode(cell, w, {RowValues{{static_cast<double>(token)}}});
    EXPECT_EQ(left[0][2], static_cast<double>(w[0].data[row * 3 + 2]));
  }
}

TEST(InterpreterTest, ReductionsAndRearrangingDoWhatTheyAreNamed) {
  CellBuilder b("reduce");
  const ValueId x = b.Read("x", "x", 4);
  b.Leave("sum", b.Op1(OpKind::kSum, x));
  b.Leave("mean", b.Op1(OpKind::kMean, x));
  b.Leave("best", b.Op1(OpKind::kArgMax, x));
  b.Leave("p", b.Op1(OpKind::kSoftmax, x));
  b.Leave("turned", b.Op1(OpKind::kTranspose, b.Matrix("M", 2, 3)));
  b.Leave("joined", b.Concat(b.Slice(x, 1, 3), x));
  b.Leave("relu", b.Op1(OpKind::kRelu, b.Sub(x, b.Constant(2.0f))));
  const CellDefinition cell = b.Build();
  Weights w = {{std::shared_ptr<float[]>(new float[6]{1, 2, 3, 4, 5, 6}), Shape::Matrix(2, 3)}};
  const RowValues left = InterpretNode(cell, w, {RowValues{{1.0, 3.0, 3.0, 0.0}}});
  EXPECT_EQ(left[0][0], 7.0);
  EXPECT_EQ(left[1][0], 1.75);
  EXPECT_EQ(left[2][0], 1.0);  // the first of two equals
  EXPECT_NEAR(left[3][1], 1.0 / (2 + std::exp(-2.0) + std::exp(-3.0)), 1e-12);
  EXPECT_EQ(left[4], (ColumnValues{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(left[5], (ColumnValues{3, 3, 1, 3, 3, 0}));
  EXPECT_EQ(left[6], (ColumnValues{0, 1, 1, 0}));
}

TEST(InterpreterTest, NaNIsNeverTheLargest) {
  CellBuilder b("best");
  b.Leave("best", b.Op1(OpKind::kArgMax, b.Read("x", "x", 4)));
  const CellDefinition cell = b.Build();
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(InterpretNode(cell, {}, {RowValues{{nan, 1.0, 3.0, 3.0}}})[0][0], 2.0);
  EXPECT_EQ(InterpretNode(cell, {}, {RowValues{{1.0, nan, 3.0, nan}}})[0][0], 2.0);
  EXPECT_EQ(InterpretNode(cell, {}, {RowValues{{nan, nan, -inf, -inf}}})[0][0], 2.0);
  EXPECT_EQ(InterpretNode(cell, {}, {RowValues{{nan, nan, nan, nan}}})[0][0], 0.0);
}

TEST(InterpreterTest, AMatrixTimesAMatrixMultipliesRowByRow) {
  CellBuilder b("gram");
  const ValueId m = b.Matrix("M", 2, 3);
  b.Read("x", "x", 1);
  b.Leave("gram", b.MatMul(m, m));
  Weights w = {{std::shared_ptr<float[]>(new float[6]{1, 2, 3, 4, 5, 6}), Shape::Matrix(2, 3)}};
  EXPECT_EQ(InterpretNode(b.Build(), w, {RowValues{{0.0}}})[0], (ColumnValues{14, 32, 32, 77}));
}

}  // namespace
}  // namespace cellbatch
