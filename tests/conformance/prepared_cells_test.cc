// What parameters alone make is computed once, at load, and by no node: no operator of it is left in the program, and what
// the cell leaves has the bits that it has if each node computes it.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cells/compile/lower.h"
#include "cells/device/cpu/cpu_features.h"
#include "cells/device/cpu/cpu_limits.h"
#include "fmt/format.h"
#include "tests/testing/builders.h"
#include "tests/testing/cell_trial.h"

namespace cellbatch::conformance {
namespace {

using testing::CellBuilder;
using testing::CellTrial;

bool Computes(const TailOp& op) {
  return op.kind != TailOpKind::kStore && NumOperands(op.kind) > 0;
}

// What a node of this program computes, in operators: products by group and segment, tails by operation.
struct Counts {
  int products = 0, tail_ops = 0, plain = 0, indices = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
  friend void PrintTo(const Counts& c, std::ostream* to) {
    *to << fmt::format("{} products, {} in tails, {} plain, {} indices", c.products, c.tail_ops,
                       c.plain, c.indices);
  }
};

Counts CountOf(const CellProgram& program) {
  Counts counts;
  for (const Step& step : program.steps) {
    counts.indices += std::holds_alternative<IndexStep>(step);
    const auto* const plain = std::get_if<PlainStep>(&step);
    counts.plain += plain != nullptr && plain->kind != PlainKind::kCopy;
    const auto* const product = std::get_if<ProductStep>(&step);
    if (product == nullptr) continue;
    for (const SegmentPlan& s : product->segments) {
      for (const auto& w : s.weights) counts.products += w.has_value();
    }
    const std::vector<TailOp>& ops = product->tail.ops;
    counts.tail_ops += static_cast<int>(std::count_if(ops.begin(), ops.end(), Computes));
  }
  return counts;
}

Counts CountOf(const CellDefinition& cell) { return CountOf(*Lower(cell, kCpuLimits)); }

// h' = exp(log_decay) h + (1 - sigmoid(gate)) tanh(x . W)
CellDefinition DecayCell(int32_t d, int32_t n) {
  CellBuilder b("decay");
  const ValueId x = b.Read("x", "x", d), h = b.Carry("before", "h", n);
  const ValueId decay = b.Op1(OpKind::kExp, b.Vector("log_decay", n));
  const ValueId open = b.Sub(b.Constant(1.0f), b.Sigmoid(b.Vector("gate", n)));
  const ValueId candidate = b.Tanh(b.MatMul(x, b.Matrix("W", n, d)));
  b.Leave("h", b.Add(b.Mul(decay, h), b.Mul(open, candidate)));
  return b.Build();
}

// A sum of products, one of which is of parameters, of a bias and of what is computed of two vectors.
CellDefinition SumCell(int32_t d, int32_t n) {
  CellBuilder b("sum");
  const ValueId x = b.Read("x", "x", d), h = b.Carry("before", "h", n);
  const ValueId of_start = b.MatMul(b.Tanh(b.Vector("start", d)), b.Matrix("S", n, d));
  const ValueId scaled = b.Mul(b.Vector("bias", n), b.Vector("scale", n));
  const ValueId in = b.Add(b.MatMul(x, b.Matrix("W", n, d)), b.Vector("b", n));
  const ValueId recurrent = b.Add(b.MatMul(h, b.Matrix("U", n, n)), scaled);
  b.Leave("h", b.Sigmoid(b.Add(b.Add(in, of_start), recurrent)));
  return b.Build();
}

// x . (W * sigmoid(M)), written with the matrix as it is and turned round.
CellDefinition MaskedCell(int32_t d, int32_t n) {
  CellBuilder b("masked");
  const ValueId x = b.Read("x", "x", d);
  const ValueId w = b.Mul(b.Matrix("W", n, d), b.Sigmoid(b.Matrix("M", n, d)));
  const ValueId v = b.Op1(OpKind::kExp, b.Op1(OpKind::kTranspose, b.Matrix("V", d, n)));
  b.Leave("y", b.Add(b.MatMul(x, w), b.MatMul(x, v)));
  return b.Build();
}

// Nothing but parameters, of either type.
CellDefinition FixedCell(int32_t n) {
  CellBuilder b("fixed");
  const ValueId p = b.Vector("p", n);
  b.Leave("y", b.Mul(b.Tanh(p), b.Op1(OpKind::kSoftmax, b.Vector("q", n))));
  b.Leave("p", p);
  b.Leave("word", b.Op1(OpKind::kArgMax, b.Add(p, b.Vector("q2", n))));
  b.Leave("row", b.Lookup(b.Matrix("E", 5, 7), b.Integer(9)));
  return b.Build();
}

// `p` as it lies, as an operand of what is folded, and as a bias; a prepared value that feeds a product's operand.
CellDefinition BothWaysCell(int32_t n) {
  CellBuilder b("both_ways");
  const ValueId x = b.Read("x", "x", n), p = b.Vector("p", n);
  const ValueId q = b.Op1(OpKind::kExp, p);
  const ValueId scaled = b.Mul(b.Add(x, p), q);
  b.Leave("y", b.Add(b.Add(b.MatMul(scaled, b.Matrix("W", n, n)), p), b.Mul(p, q)));
  b.Leave("q", q);
  return b.Build();
}

// A product of a vector that is half the node's and half a parameter.
CellDefinition JoinedCell(int32_t d, int32_t n) {
  CellBuilder b("joined");
  const ValueId joined = b.Concat(b.Vector("p", d), b.Read("x", "x", d));
  b.Leave("y", b.Add(b.MatMul(joined, b.Matrix("W", n, 2 * d)), b.Vector("b", n)));
  const ValueId computed = b.Tanh(b.Matrix("V", n, 2 * d));
  b.Leave("z", b.MatMul(joined, computed));
  const ValueId turned = b.Op1(OpKind::kTranspose, b.Tanh(b.Matrix("U", 2 * d, n)));
  b.Leave("turned", b.Sigmoid(b.MatMul(joined, turned)));
  return b.Build();
}

CellDefinition ComputedTableCell(int32_t v, int32_t n) {
  CellBuilder b("computed_table");
  const ValueId token = b.Read("token", "token", 1, ElementType::kInt32);
  const ValueId row = b.Lookup(b.Tanh(b.Matrix("E", v, n)), token);
  b.Leave("y", b.MatMul(row, b.Matrix("W", n, n)));
  b.Leave("row", row);
  return b.Build();
}

std::vector<CellDefinition> Cells() {
  return {DecayCell(5, 19), SumCell(5, 19),    MaskedCell(21, 19),       FixedCell(19),
          BothWaysCell(19), JoinedCell(5, 19), ComputedTableCell(30, 19)};
}

TEST(PreparedCellsTest, NoOperatorOfParametersAloneIsLeftInAProgram) {
  EXPECT_EQ(CountOf(DecayCell(5, 19)), (Counts{.products = 1, .tail_ops = 4}));
  EXPECT_EQ(CountOf(SumCell(5, 19)), (Counts{.products = 2, .tail_ops = 1}));
  EXPECT_EQ(CountOf(MaskedCell(21, 19)), (Counts{.products = 2}));
  EXPECT_EQ(CountOf(FixedCell(19)), Counts());
  EXPECT_EQ(CountOf(BothWaysCell(19)), (Counts{.products = 1, .tail_ops = 2}));
  EXPECT_EQ(CountOf(JoinedCell(5, 19)), (Counts{.products = 3, .tail_ops = 1}));
  EXPECT_EQ(CountOf(ComputedTableCell(30, 19)), (Counts{.products = 1, .indices = 1}));
}

// Of each step: what is computed there depends on something that differs from node to node.
TEST(PreparedCellsTest, NoOperatorOfParametersAloneIsLeftInRandomPrograms) {
  int with = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const CellProgram program = *Lower(testing::RandomCellOfParameters(seed), kCpuLimits);
    with += program.at_load != nullptr;
    for (const Step& step : program.steps) {
      if (const auto* const plain = std::get_if<PlainStep>(&step)) {
        const bool all = std::all_of(plain->args.begin(), plain->args.end(), [](const Place& p) {
          return p.kind == PlaceKind::kParameter;
        });
        EXPECT_TRUE(!all || plain->kind == PlainKind::kCopy) << seed << "\n" << Describe(program);
      }
      const auto* const product = std::get_if<ProductStep>(&step);
      if (product == nullptr) continue;
      for (const SegmentPlan& s : product->segments) {
        EXPECT_NE(s.source.kind, PlaceKind::kParameter) << seed << "\n" << Describe(program);
      }
      std::vector<bool> of_node;
      for (const TailOp& op : product->tail.ops) {
        of_node.push_back(op.kind == TailOpKind::kAccumulator || op.kind == TailOpKind::kColumn ||
                          op.kind == TailOpKind::kScalar);
        if (NumOperands(op.kind) > 0 && of_node[static_cast<size_t>(op.a)]) of_node.back() = true;
        if (NumOperands(op.kind) > 1 && of_node[static_cast<size_t>(op.b)]) of_node.back() = true;
        EXPECT_TRUE(of_node.back() || !Computes(op)) << seed << "\n" << Describe(program);
      }
    }
  }
  EXPECT_GE(with, 700) << "of 1000 programs have something to prepare";
}

void ExpectSameBits(const CellDefinition& cell, uint64_t seed, const kernels::CpuKernels& kernels) {
  SCOPED_TRACE(fmt::format("{}, {}", cell.name(), kernels.name));
  CellTrial prepared(cell, seed, kernels, {.rows = 9, .words = 30});
  CellTrial plain(cell, seed, kernels, {.rows = 9, .words = 30, .prepare = false});
  EXPECT_EQ(prepared.counted_bytes(), prepared.packed().bytes());
  for (CellTrial* const trial : {&prepared, &plain}) trial->Run(3);
  for (int32_t node = 0; node < 3; ++node) {
    EXPECT_EQ(prepared.Left(node), plain.Left(node))
        << Describe(prepared.packed().program()) << "\n"
        << Describe(plain.packed().program());
    EXPECT_EQ(prepared.Disagreement(node), "");
  }
}

TEST(PreparedCellsTest, BitsDoNotDependOnFoldingParameters) {
  for (const kernels::CpuKernels* const kernels : kernels::RunnableKernels(DetectCpuFeatures())) {
    for (const CellDefinition& cell : Cells()) ExpectSameBits(cell, 7, *kernels);
  }
}

TEST(PreparedCellsTest, BitsOfAThousandRandomCellsDoNotDependOnFoldingParameters) {
  const std::vector<const kernels::CpuKernels*> tables =
      kernels::RunnableKernels(DetectCpuFeatures());
  int more = 0;  // programs that compute more if nothing is prepared
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    const CellDefinition cell = testing::RandomCellOfParameters(seed);
    const kernels::CpuKernels& kernels = *tables[seed % tables.size()];
    CellTrial prepared(cell, seed, kernels, {.rows = 9});
    CellTrial plain(cell, seed, kernels, {.rows = 9, .prepare = false});
    EXPECT_EQ(prepared.counted_bytes(), prepared.packed().bytes());
    const Counts few = CountOf(prepared.packed().program()),
                 many = CountOf(plain.packed().program());
    more += few.products + few.tail_ops + few.plain < many.products + many.tail_ops + many.plain;
    for (CellTrial* const trial : {&prepared, &plain}) trial->Run(3);
    for (int32_t node = 0; node < 3; ++node) {
      EXPECT_EQ(prepared.Left(node), plain.Left(node)) << Describe(plain.packed().program());
    }
  }
  EXPECT_GE(more, 700);
}

TEST(PreparedCellsTest, ATableOfWhatIsComputedOfParametersIsFolded) {
  const kernels::CpuKernels& kernels = kernels::BestKernels(DetectCpuFeatures());
  CellTrial plain(ComputedTableCell(30, 19), 5, kernels, {.words = 30});
  CellTrial sums(ComputedTableCell(30, 19), 5, kernels, {.words = 30, .fold = true});
  CellTrial whole(ComputedTableCell(30, 19), 5, kernels, {.words = 30, .fold_whole = true});
  for (CellTrial* const trial : {&plain, &sums, &whole}) {
    EXPECT_EQ(trial->counted_bytes(), trial->packed().bytes());
    trial->Run(33);
  }
  for (int32_t node = 0; node < 33; ++node) {
    EXPECT_EQ(plain.Left(node), sums.Left(node));
    EXPECT_EQ(plain.Left(node), whole.Left(node));
    EXPECT_EQ(plain.Disagreement(node), "");
  }
}

TEST(PreparedCellsTest, ADescriptionSaysWhatIsComputedAtLoad) {
  const std::string text = Describe(*Lower(DecayCell(5, 19), kCpuLimits));
  EXPECT_EQ(text,
            "at load: product 0x19 tail 8 -> out0 -> out1\n"
            "product 1x19 in0.0[5] tail 9 -> out0\n");
}

}  // namespace
}  // namespace cellbatch::conformance
