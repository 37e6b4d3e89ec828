// Numbers that a node has one of are read where tails need them, and squares are summed where they are made: no row of
// either is written, and what the cell leaves has the bits that it has if they are (a device whose tails cannot).
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cells/compile/lower.h"
#include "cells/device/cpu/cpu_features.h"
#include "cells/device/cpu/cpu_limits.h"
#include "fmt/format.h"
#include "tests/testing/cell_builder.h"
#include "tests/testing/cell_trial.h"
#include "tests/testing/shipped_cell.h"

namespace cellbatch::conformance {
namespace {

using testing::CellBuilder;
using testing::CellTrial;

ProgramLimits WithoutScalars() {
  ProgramLimits limits = kCpuLimits;
  limits.scalars = false;
  return limits;
}

int CountOf(const CellProgram& program, PlainKind kind) {
  return static_cast<int>(
      std::count_if(program.steps.begin(), program.steps.end(), [kind](const Step& step) {
        const auto* const plain = std::get_if<PlainStep>(&step);
        return plain != nullptr && plain->kind == kind;
      }));
}

int CountOf(const CellDefinition& cell, PlainKind kind) {
  return CountOf(*Lower(cell, kCpuLimits), kind);
}

ValueId Mean(CellBuilder& b, ValueId v) { return b.Op1(OpKind::kMean, v); }

// (a - mean) / deviation, as it is written in text files.
ValueId Normalised(CellBuilder& b, ValueId a) {
  const ValueId off = b.Sub(a, Mean(b, a));
  const ValueId above = b.Add(Mean(b, b.Mul(off, off)), b.Constant(1e-5f));
  return b.Mul(off, b.Op1(OpKind::kExp, b.Mul(b.Constant(-0.5f), b.Op1(OpKind::kLog, above))));
}

// Of a product, of the carried state, and of what the tail makes of both.
CellDefinition NormalisedCell(int32_t d, int32_t n) {
  CellBuilder b("normalised");
  const ValueId x = b.Read("x", "x", d), h = b.Carry("before", "h", n);
  const ValueId of_x = Normalised(b, b.MatMul(x, b.Matrix("W", n, d)));
  b.Leave("h", Normalised(b, b.Tanh(b.Add(of_x, b.Mul(b.Vector("gain", n), h)))));
  return b.Build();
}

// Without a mean: the squares are of what is stored, and their sum is an output, too.
CellDefinition RootMeanSquareCell(int32_t n) {
  CellBuilder b("root_mean_square");
  const ValueId y = b.MatMul(b.Read("x", "x", n), b.Matrix("W", n, n));
  const ValueId square = b.Op1(OpKind::kSum, b.Mul(y, y));
  b.Leave("y", b.Op2(OpKind::kDiv, y, b.Add(square, b.Constant(1.0f))));
  b.Leave("square", square);
  return b.Build();
}

// What is above the mean is an output and the input of a product, and so is a row made of the mean; so are the squares an output.
CellDefinition ReadElsewhereCell(int32_t n) {
  CellBuilder b("read_elsewhere");
  const ValueId y = b.Tanh(b.MatMul(b.Read("x", "x", n), b.Matrix("W", n, n)));
  const ValueId mean = Mean(b, y), off = b.Sub(y, mean), square = b.Mul(off, off);
  b.Leave("off", off);
  b.Leave("product", b.MatMul(off, b.Matrix("V", n, n)));
  b.Leave("square", square);
  b.Leave("variance", Mean(b, square));
  b.Leave("of_mean", b.MatMul(b.Mul(mean, b.Vector("ones", n)), b.Matrix("U", n, n)));
  return b.Build();
}

// Halves, joined in another order and reduced again; the best of what is normalised.
CellDefinition PartsCell(int32_t n) {
  CellBuilder b("parts");
  const ValueId y = b.MatMul(b.Read("x", "x", n), b.Matrix("W", 2 * n, n));
  const ValueId unit = Normalised(b, y);
  const ValueId turned = b.Concat(b.Slice(unit, n, 2 * n), b.Slice(unit, 0, n));
  b.Leave("turned", turned);
  b.Leave("half", b.Sigmoid(b.Slice(unit, 0, n)));
  b.Leave("best", b.Op1(OpKind::kArgMax, turned));
  b.Leave("pairs", b.Concat(Mean(b, y), Mean(b, b.Mul(y, y))));
  return b.Build();
}

// Sums, differences, products, squares, means, of vectors and of single numbers.
CellDefinition RandomCell(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const auto width = static_cast<int32_t>(1 + below(40));
  CellBuilder b(fmt::format("random{}", seed));
  std::vector<ValueId> rows = {b.Read("x", "x", width), b.Carry("before", "h", width),
                               b.Vector("p", width)};
  rows.push_back(b.MatMul(rows[0], b.Matrix("W", width, width)));
  std::vector<ValueId> numbers = {b.Constant(0.5f)};
  const auto squashed = [&](ValueId v) { return b.Tanh(v); };
  const size_t steps = 3 + below(9);
  for (size_t i = 0; i < steps; ++i) {
    const ValueId row = rows[below(rows.size())], number = numbers[below(numbers.size())];
    switch (below(6)) {
      case 0:
        numbers.push_back(b.Op1(below(2) == 0 ? OpKind::kMean : OpKind::kSum, squashed(row)));
        break;
      case 1: {
        const ValueId off = b.Sub(row, number);
        numbers.push_back(Mean(b, b.Mul(off, off)));
        if (below(2) == 0) rows.push_back(off);
        break;
      }
      case 2:
        rows.push_back(b.Sub(row, number));
        break;
      case 3:
        rows.push_back(b.Add(b.Mul(row, number), rows[below(rows.size())]));
        break;
      case 4:
        numbers.push_back(b.Op1(OpKind::kExp, squashed(number)));
        break;
      case 5:
        rows.push_back(squashed(b.Mul(rows[below(rows.size())], row)));
        break;
    }
  }
  b.Leave("h", squashed(rows.back()));
  b.Leave("number", squashed(numbers.back()));
  if (below(2) == 0) b.Leave("other", squashed(rows[below(rows.size())]));
  return b.Build();
}

// How many steps it saves.
int ExpectSameBits(const CellDefinition& cell, uint64_t seed, const kernels::CpuKernels& kernels) {
  SCOPED_TRACE(fmt::format("{}, {}", cell.name(), kernels.name));
  constexpr int32_t kNodes = 7;
  CellTrial with(cell, seed, kernels, {.rows = 17});
  CellTrial without(cell, seed, kernels, {.rows = 17, .limits = WithoutScalars()});
  const CellProgram &fused = with.packed().program(), &plain = without.packed().program();
  for (CellTrial* const trial : {&with, &without}) trial->Run(kNodes);
  for (int32_t node = 0; node < kNodes; ++node) {
    EXPECT_EQ(with.Left(node), without.Left(node)) << Describe(fused) << "\n" << Describe(plain);
  }
  return static_cast<int>(plain.steps.size()) - static_cast<int>(fused.steps.size());
}

std::vector<CellDefinition> Cells() {
  std::vector<CellDefinition> cells = {NormalisedCell(5, 19), NormalisedCell(7, 130),
                                       RootMeanSquareCell(19), ReadElsewhereCell(19),
                                       PartsCell(19)};
  cells.push_back(
      *testing::DefinitionOfWidth(testing::ShippedText("lstm_layernorm"), "lstm_layernorm", 21));
  return cells;
}

TEST(ScalarsTest, ALayerNormalisationWritesNothingButItsFewNumbers) {
  const CellDefinition cell =
      *testing::DefinitionOfWidth(testing::ShippedText("lstm_layernorm"), "lstm_layernorm", 32);
  EXPECT_EQ(CountOf(cell, PlainKind::kBroadcast), 0);
  EXPECT_EQ(CountOf(cell, PlainKind::kMean), 3);
  EXPECT_EQ(CountOf(cell, PlainKind::kMeanSquares), 3);
  const CellProgram program = *Lower(cell, kCpuLimits), plain = *Lower(cell, WithoutScalars());
  EXPECT_EQ(program.steps.size(), 11u) << Describe(program);
  // The output gate reads sums that lie there, and waits for who reads it.
  const auto& state = std::get<ProductStep>(program.steps[6]);
  EXPECT_EQ(std::count_if(state.tail.ops.begin(), state.tail.ops.end(),
                          [](const TailOp& op) { return op.kind == TailOpKind::kStore; }),
            1)
      << Describe(program);
  EXPECT_GE(CountOf(plain, PlainKind::kBroadcast), 6);
  EXPECT_LT(2 * program.scratch_width, plain.scratch_width);
}

TEST(ScalarsTest, SquaresAreSummedWhereTheyAreMadeWhoeverElseReadsThem) {
  EXPECT_EQ(CountOf(ReadElsewhereCell(19), PlainKind::kMeanSquares), 1);
  EXPECT_EQ(CountOf(RootMeanSquareCell(19), PlainKind::kSumSquares), 1);
}

TEST(ScalarsTest, BitsAreThoseOfRowsWrittenOut) {
  for (const kernels::CpuKernels* const kernels : kernels::RunnableKernels(DetectCpuFeatures())) {
    for (const CellDefinition& cell : Cells()) ExpectSameBits(cell, 7, *kernels);
  }
}

TEST(ScalarsTest, TheyAreTheInterpretersWithinItsBound) {
  for (const kernels::CpuKernels* const kernels : kernels::RunnableKernels(DetectCpuFeatures())) {
    for (const CellDefinition& cell : Cells()) {
      CellTrial trial(cell, 7, *kernels, {.rows = 17});
      trial.Run(7);
      for (int32_t node = 0; node < 7; ++node) EXPECT_EQ(trial.Disagreement(node), "");
    }
  }
}

TEST(ScalarsTest, BitsOfAThousandRandomCellsAreThoseOfRowsWrittenOut) {
  const std::vector<const kernels::CpuKernels*> tables =
      kernels::RunnableKernels(DetectCpuFeatures());
  int fewer = 0, squares = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    const CellDefinition cell = RandomCell(seed);
    fewer += ExpectSameBits(cell, seed, *tables[seed % tables.size()]) > 0;
    squares += CountOf(cell, PlainKind::kMeanSquares) > 0;
  }
  EXPECT_GE(fewer, 200) << "of 1000 programs have fewer steps";
  EXPECT_GE(squares, 100) << "of 1000 sum squares where they are made";
}

}  // namespace
}  // namespace cellbatch::conformance
