#include "cells/explain/equations.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "cells/definitions/shipped.h"
#include "tests/testing/builders.h"
#include "tests/testing/shipped_cell.h"

namespace cellbatch {
namespace {

using testing::CellBuilder;
using testing::ShippedDefinition;

const Sizes kSizes = {{"D", 5}, {"H", 7}, {"V", 100}, {"C", 3}, {"F", 2},  {"B", 3},
                      {"L", 4}, {"M", 6}, {"P", 4},   {"S", 2}, {"BOS", 1}};

std::string Shipped(std::string_view cell) { return Equations(ShippedDefinition(cell, kSizes)); }

TEST(EquationsTest, GatesThatAreStackedAreReadRowByRow) {
  EXPECT_EQ(Shipped("lstm"),
            "i = sigmoid(b[0:7] + W[0:7] x + U[0:7] before.h)\n"
            "f = sigmoid(b[7:14] + W[7:14] x + U[7:14] before.h)\n"
            "g = tanh(b[14:21] + W[14:21] x + U[14:21] before.h)\n"
            "o = sigmoid(b[21:28] + W[21:28] x + U[21:28] before.h)\n"
            "c = f * before.c + i * g\n"
            "h = o * tanh(c)\n");
}

TEST(EquationsTest, AMatrixTurnedSlicedAndTurnedAgainIsRowsOfIt) {
  EXPECT_EQ(Shipped("gru_v1"),
            "r = sigmoid(b[0:7] + W[0:7] x + U[0:7] before.h)\n"
            "z = sigmoid(b[7:14] + W[7:14] x + U[7:14] before.h)\n"
            "n = tanh(b[14:21] + W[14:21] x + U[14:21] (r * before.h))\n"
            "h = n + z * (before.h - n)\n");
}

TEST(EquationsTest, BracketsStandWhereTheOrderNeedsThem) {
  EXPECT_EQ(Shipped("minlstm"),
            "f = sigmoid(b[0:7] + W[0:7] x)\n"
            "i = sigmoid(b[7:14] + W[7:14] x)\n"
            "h = (f * before.h + i * (b[14:21] + W[14:21] x)) / (f + i)\n");
  CellBuilder b("brackets");
  const ValueId x = b.Read("x", "x", 3), y = b.Carry("y", "out", 3);
  const ValueId difference = b.Sub(x, b.Sub(y, x));
  b.Leave("out", b.Op2(OpKind::kDiv, b.MatMul(x, b.Matrix("W", 3, 3)),
                       b.Op2(OpKind::kDiv, difference, b.Op2(OpKind::kMax, x, y))));
  EXPECT_EQ(Equations(b.Build()), "out = (W x) / ((x - (y.out - x)) / max(x, y.out))\n");
}

TEST(EquationsTest, SumsOfRowsLookupsAndMatricesAreSaid) {
  EXPECT_EQ(Shipped("merge_lstm"), "h = sum(arcs).h\nc = sum(arcs).c\n");
  EXPECT_EQ(Shipped("embed"), "x = table[token]\n");
  EXPECT_EQ(Shipped("pair"), "x = [forward.h; backward.h]\n");
  EXPECT_EQ(Shipped("mv_internal"),
            "v = tanh(b_v + W_v [child0.m child1.v; child1.m child0.v])\n"
            "m = b_m + W_m[:, 0:7] child0.m + W_m[:, 7:14] child1.m\n");
}

// Nothing is read before its line, and whoever is read twice has one.
TEST(EquationsTest, WhatIsReadTwiceHasALineAndStandsBeforeItsReaders) {
  CellBuilder b("twice");
  const ValueId x = b.Read("x", "x", 4);
  const ValueId sum = b.Add(x, b.Constant(0.5f));
  const ValueId soft = b.Op1(OpKind::kSoftmax, sum);
  b.Leave("square", b.Mul(sum, sum));
  b.Leave("half", b.Slice(soft, 1, 3));
  b.Leave("copy", x);
  EXPECT_EQ(Equations(b.Build()),
            "v2 = x + 0.5\n"
            "v3 = softmax(v2)\n"
            "half = v3[1:3]\n"
            "square = v2 * v2\n"
            "copy = x\n");
}

// Each output has its line, each line a name of its own; what the slices of one value would multiply out to is bounded.
TEST(EquationsTest, EveryRandomCellHasALineForEachOutputAndNoNameTwice) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const CellDefinition cell = testing::RandomCell(seed);
    const std::string equations = "\n" + Equations(cell);
    std::set<std::string> names;
    for (size_t at = 0; (at = equations.find('\n', at)) != std::string::npos; ++at) {
      if (at + 1 == equations.size()) break;
      const std::string name = equations.substr(at + 1, equations.find(" = ", at) - at - 1);
      EXPECT_TRUE(names.insert(name).second) << name << equations;
    }
    for (const Column& column : cell.columns()) {
      EXPECT_TRUE(names.contains(column.name)) << column.name << equations;
    }
  }
}

TEST(EquationsTest, ManySlicesOfALongChainAreCutOff) {
  constexpr int kWidth = 128, kChain = 60;
  CellBuilder b("slices");
  ValueId value = b.Read("x", "x", kWidth);
  for (int i = 0; i < kChain; ++i) value = b.Tanh(b.Add(value, b.Constant(1.0f)));
  ValueId sum = b.Slice(value, 0, 1);
  for (int i = 1; i < kWidth; ++i) sum = b.Add(sum, b.Slice(value, i, i + 1));
  b.Leave("sum", sum);
  EXPECT_LT(Equations(b.Build()).size(), 200'000u);
}

}  // namespace
}  // namespace cellbatch
